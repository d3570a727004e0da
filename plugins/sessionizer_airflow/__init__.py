"""Airflow's side of the platform: start and supervise a stream's driver, and announce new sessions."""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Asset

    from sessionizer_airflow.operating.own_dags import ChangeStream, SavepointStream, StreamSensor, UpgradeStreams

BUILDING_BLOCKS = ("ChangeStream", "SavepointStream", "StreamSensor", "UpgradeStreams")
__all__ = [
    "ChangeStream",
    "SavepointStream",
    "StreamSensor",
    "UpgradeStreams",
    "check_specs",
    "sessions_asset",
    "stream_dags",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  a class
    """Import a building block of DAGs when a DAG file first asks for it, because Airflow imports this package often."""
    if name not in BUILDING_BLOCKS:
        raise AttributeError(name)
    return getattr(import_module("sessionizer_airflow.operating.own_dags"), name)


def stream_dags(
    namespace: MutableMapping[str, Any], folder: str = "streams", *, platform: str | None = "sessionizer"
) -> None:
    """Make the DAGs of the streams whose specs are in ``folder``, in a DAG file that gives its ``globals()``.

    A relative ``folder`` is beside the DAG file. ``platform`` is the first part of the ids of the DAGs for all these
    streams (``sessionizer.operate``). A second DAG file needs a name of its own. None leaves these DAGs out. A broken
    spec costs only its own stream the DAGs.

    Raises InvalidSpec: there is no such folder, or ``platform`` is no name.
    Raises HomeMissing: SESSIONIZER_HOME is not set to an absolute path.
    """
    # Not above, because every import of a part of this package would make Airflow load all of it.
    from sessionizer_airflow.dags.factory import fill_namespace  # noqa: PLC0415

    fill_namespace(namespace, folder, platform)


def check_specs(namespace: MutableMapping[str, Any], folder: str = "streams") -> None:
    """Raise BrokenSpecs if a spec in ``folder`` is broken. Call it in a DAG file of its own, which then has no DAG."""
    from sessionizer_airflow.dags.factory import require_sound_specs  # noqa: PLC0415

    require_sound_specs(namespace, folder)


def sessions_asset(stream: str) -> Asset:
    """Return the asset of a stream's new sessions, for ``schedule=[sessions_asset("clicks")]`` in a DAG of your own.

    It is the asset that the stream's own DAG declares, with its watcher. ``Asset("clicks.sessions")`` is another one,
    which takes the name from it.

    Raises HomeMissing: SESSIONIZER_HOME is not set to an absolute path.
    """
    from sessionizer_airflow.assets import watched_sessions_asset  # noqa: PLC0415
    from sessionizer_airflow.project import Project  # noqa: PLC0415
    from sessionizer_airflow.supervision.policy import SupervisionSettings  # noqa: PLC0415

    interval = SupervisionSettings.from_environment().landing_interval_ms
    return watched_sessions_asset(stream, Project.from_environment().home, interval)


def provider_info() -> dict[str, Any]:
    """Return the facts that ``airflow providers list`` shows."""
    from sessionizer import __version__  # noqa: PLC0415

    return {
        "package-name": "streaming-state",
        "name": "Streaming state",
        "description": "Sessions from a Spark stream whose state can be saved, moved and upgraded from Airflow.",
        "versions": [__version__],
    }
