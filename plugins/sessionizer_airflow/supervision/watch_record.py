"""`watch.json`: which try of which run watches the stream, so that an older one can tell that it was cleared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.atomic_file import write_json
from sessionizer.control.json_record import JsonRecord, read_record

if TYPE_CHECKING:
    from sessionizer.control.stream_home import StreamHome

FILE = "watch.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchRecord(JsonRecord):
    """Try `try_number` of DAG run `run_id`."""

    run_id: str
    try_number: int


def read_watch(home: StreamHome) -> WatchRecord | None:
    """The newest watch; None if there was none, or the file is damaged."""
    return read_record(WatchRecord, home.control / FILE)


def write_watch(home: StreamHome, watch: WatchRecord) -> None:
    """:raises UnwritablePath: the control directory cannot be written."""
    write_json(home.control / FILE, watch.to_json())
