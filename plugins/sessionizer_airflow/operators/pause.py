"""Note, in a stream's records, whether Airflow has the DAG paused that supervises the stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.records.airflow_records import note_pause
from sessionizer.home.names import Verb, dag_id
from sessionizer_airflow.internals import is_dag_paused

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome


def ask_pause(
    home: StreamHome, ask: Callable[[str], bool | None] = is_dag_paused, taken: str | None = None
) -> bool | None:
    """Note whether the stream's supervisor is paused, by Airflow's answer to ``ask``, and return it. Never raises.

    ``taken`` is noted with it: the asset of the stream that another DAG has.
    """
    paused = ask(dag_id(home.name, Verb.SUPERVISE))
    if paused is not None:
        note_pause(home, paused=paused, taken=taken)
    return paused
