"""The file ``watch.json``: the try and the run that watch the stream. It tells a clear from a retry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.home.json_file import read_record, write_record
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchRecord(JsonRecord):
    """Try ``try_number`` of DAG run ``run_id``. Airflow allows ``max_tries`` tries, and the run had so many ``clears``.

    ``ended`` if it ended by itself. The watch lasts ``until`` then (epoch ms), and reads specs in the folder
    ``streams``. ``bundle`` is the name and version of the DAG bundle that it runs by. Earlier releases noted none.
    """

    run_id: str
    try_number: int
    max_tries: int = 0
    clears: int = 0
    ended: bool = False
    until: int = 0
    streams: str | None = None
    bundle: str | None = None

    def is_cleared_by(self, later: WatchRecord) -> bool:
        """Whether ``later`` exists because a user cleared the task, which a retry is not.

        Airflow counts the clears of a run. If a user left the run's state unchanged, Airflow allows the task more
        tries.
        """
        return self.run_id == later.run_id and (self.clears < later.clears or self.max_tries < later.max_tries)

    def is_past(self, run_id: str) -> bool:
        """Whether the run ``run_id`` of the same DAG was over when this was written.

        The ids of scheduled runs sort by date. The DAG has no others.
        """
        return run_id < self.run_id or (run_id == self.run_id and self.ended)


def read_watch(home: StreamHome) -> WatchRecord | None:
    """Return the newest watch. None if there was none, or the file is damaged."""
    return read_record(WatchRecord, home.control_files.watch)


def write_watch(home: StreamHome, watch: WatchRecord) -> None:
    """Write the record. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    write_record(home.control_files.watch, watch)
