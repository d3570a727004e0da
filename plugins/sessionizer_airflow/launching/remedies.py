"""The causes of what can go wrong between Airflow and a driver, by the error: see `sessionizer.causes.table`."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sessionizer.causes.table import CAUSES, Cause, Verdict, cause_of
from sessionizer.errors import SessionizerError, TerminalError
from sessionizer_airflow.errors import (
    ClusterUnreachable,
    DriverOutOfReach,
    DriverWouldNotEnd,
    KubernetesSupportMissing,
    OrphanedDrivers,
    ProgramMissing,
    SparkConnectionMissing,
    SupervisionEnded,
    UnusableConnection,
    UnwatchedStreams,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
REMEDIES: dict[type, tuple[str, Callable[[Any], str]]] = {
    SparkConnectionMissing: (
        "there is no Spark connection",
        lambda error: (
            f"`airflow connections add {error.name} --conn-type spark --conn-host <master>` (docs/spark-clusters.md)"
        ),
    ),
    UnusableConnection: (
        "the Spark connection is wrong",
        lambda error: f"correct {error.field} of the connection {error.connection}",
    ),
    KubernetesSupportMissing: (
        "the client of Kubernetes is missing",
        lambda _: "pip install 'apache-airflow-providers-apache-spark[cncf-kubernetes]'",
    ),
    ProgramMissing: (
        "a program is missing",
        lambda error: f"install {error.program} for the Airflow worker, or put it on its PATH",
    ),
    DriverOutOfReach: (
        "a driver is out of reach",
        lambda error: (
            f"end process {error.pid} on {error.host} (`kill -9 {error.pid}`), or make sure that {error.host} is down"
        ),
    ),
    DriverWouldNotEnd: ("a driver would not end", lambda _: "see why it cannot be killed: a disk or mount that hangs"),
    ClusterUnreachable: (
        "the cluster does not answer",
        lambda error: f"see that `{' '.join(error.command)}` answers on the Airflow worker",
    ),
}
"""How an error of launching and ending is called, and what to do about it."""
TRANSIENT = frozenset({DriverOutOfReach, DriverWouldNotEnd, ClusterUnreachable})


GO_ON: Final = "then unpause this DAG"


def reason_of(error: SessionizerError) -> str:
    """What happened."""
    return f"gave up on {error.stream}: {error.reason}" if isinstance(error, SupervisionEnded) else str(error)


def remedy_of(error: SessionizerError) -> str:
    """What to do about it."""
    if isinstance(error, SupervisionEnded | OrphanedDrivers | UnwatchedStreams):
        return error.remedy
    return f"{cause_of_error(error).remedy}, {GO_ON}"


def cause_of_error(error: SessionizerError | OSError) -> Cause:
    """How it is called, whether to try again, and what to do."""
    if isinstance(error, OSError):
        # What the system refuses is a matter of the machine: room, memory, open files.
        full = error.errno in NO_ROOM
        return CAUSES["disk_full"] if full else replace(CAUSES["TransientError"], called="the system refuses something")
    known = REMEDIES.get(type(error))
    if known is None:
        return cause_of(_known_name(error), str(error), terminal=isinstance(error, TerminalError))
    called, remedy = known
    verdict = Verdict.TRANSIENT if type(error) in TRANSIENT else Verdict.TERMINAL
    return Cause(type(error).__name__, called, verdict, remedy(error))


def _known_name(error: SessionizerError) -> str:
    """That of the nearest class with a cause: a new class is judged like what it is a kind of."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in CAUSES), type(error).__name__)
