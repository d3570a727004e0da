"""The DAGs of a folder of specs, made for the namespace of a DAG file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sessionizer.errors import STREAMS_FOLDER, InvalidSpec
from sessionizer.home.names import check_name
from sessionizer_airflow.dags.compaction import compaction_dag
from sessionizer_airflow.dags.maintenance import maintenance_dag
from sessionizer_airflow.dags.operate import operate_dag
from sessionizer_airflow.dags.orphans import orphans_dag
from sessionizer_airflow.dags.report import report_dag
from sessionizer_airflow.dags.savepoints import savepoints_dag
from sessionizer_airflow.dags.steer import steering_dags
from sessionizer_airflow.dags.supervise import supervise_dag
from sessionizer_airflow.dags.upgrade import upgrade_dag
from sessionizer_airflow.dags.wiring import Wiring
from sessionizer_airflow.errors import BrokenSpecs

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from airflow.sdk import DAG


def fill_namespace(namespace: MutableMapping[str, Any], folder: str, platform: str | None) -> None:
    """Put the DAGs of the streams in ``folder``, and the platform's DAGs unless ``platform`` is None, in ``namespace``.

    Raises InvalidSpec: there is no such folder, or ``platform`` is no name.
    Raises HomeMissing.
    """
    wiring = Wiring.of(folder_beside(namespace, folder))
    dags = list(_stream_dags(wiring))
    if platform is not None:
        dags += _platform_dags(wiring, check_name("platform", platform))
    namespace.update({dag.dag_id: dag for dag in dags})


def require_sound_specs(namespace: MutableMapping[str, Any], folder: str) -> None:
    """Raise BrokenSpecs if a spec in ``folder`` is broken. Airflow then lists the DAG file as an import error."""
    problems = Wiring.of(folder_beside(namespace, folder)).folder.problems
    if problems:
        raise BrokenSpecs(problems)


def folder_beside(namespace: MutableMapping[str, Any], folder: str) -> Path:
    """Return the folder as an absolute path. A relative one is beside the DAG file, wherever its bundle is.

    Raises InvalidSpec: it is relative, and ``namespace`` is not that of a file.
    """
    given = Path(folder).expanduser()
    file = namespace.get("__file__")
    if not given.is_absolute() and file is None:
        raise InvalidSpec(STREAMS_FOLDER, folder, "an absolute path, or a call with globals() of a DAG file")
    return given if file is None else Path(file).absolute().parent / given


def _stream_dags(wiring: Wiring) -> Iterator[DAG]:
    for spec in wiring.specs:
        yield supervise_dag(spec, wiring)
        yield from steering_dags(spec, wiring)
        yield report_dag(spec, wiring)


def _platform_dags(wiring: Wiring, platform: str) -> Iterator[DAG]:
    yield operate_dag(wiring, platform)
    yield savepoints_dag(wiring, platform)
    yield compaction_dag(wiring, platform)
    yield upgrade_dag(wiring, platform)
    yield maintenance_dag(wiring, platform)
    yield orphans_dag(wiring, platform)
