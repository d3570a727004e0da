"""What to do about the errors of the plugin, above all of launching: one line for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.end_remedies import remedy_of_end
from sessionizer_airflow.errors import (
    DriverOutOfReach,
    KubernetesSupportMissing,
    OrphanedDrivers,
    ProgramMissing,
    SparkConnectionMissing,
    SupervisionEnded,
    UnusableConnection,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.errors import SessionizerError

REMEDIES: dict[type, Callable[[Any], str]] = {
    SparkConnectionMissing: lambda error: (
        f"`airflow connections add {error.name} --conn-type spark --conn-host <master>` (docs/spark-clusters.md)"
    ),
    UnusableConnection: lambda error: f"correct {error.field} of the connection {error.connection}",
    KubernetesSupportMissing: lambda _: "pip install 'apache-airflow-providers-apache-spark[cncf-kubernetes]'",
    ProgramMissing: lambda error: f"install {error.program} for the Airflow worker, or put it on its PATH",
    DriverOutOfReach: lambda error: (
        f"end process {error.pid} on {error.host} (`kill -9 {error.pid}`), or make sure that {error.host} is down"
    ),
}


GO_ON: Final = "then unpause this DAG"


def reason_of(error: SessionizerError) -> str:
    """What happened."""
    return f"gave up on {error.stream}: {error.reason}" if isinstance(error, SupervisionEnded) else str(error)


def remedy_of(error: SessionizerError) -> str:
    """What to do about it."""
    if isinstance(error, SupervisionEnded | OrphanedDrivers):
        return error.remedy
    remedy = REMEDIES.get(type(error))
    return f"{remedy(error) if remedy else remedy_of_end(type(error).__name__)}, {GO_ON}"
