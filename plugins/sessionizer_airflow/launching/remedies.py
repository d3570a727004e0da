"""What to do about a driver that could not be launched or ended: one line for each class, shown behind the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessionizer_airflow.errors import (
    DriverOutOfReach,
    KubernetesSupportMissing,
    ProgramMissing,
    SparkConnectionMissing,
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


def with_remedy(error: SessionizerError) -> str:
    """The message, with what to do if it is an error of launching."""
    remedy = REMEDIES.get(type(error))
    return str(error) if remedy is None else f"{error}. What to do: {remedy(error)}, then unpause this DAG"
