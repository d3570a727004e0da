"""Damage of the records that a stream's driver needs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.records.desired_state import read_desired
from sessionizer.control.records.operation_record import read_operations
from sessionizer.errors import DamagedFile, SessionizerError
from sessionizer.home.control_store import store_at
from sessionizer.home.home_identity import identity_file
from sessionizer.home.roots import uri_of
from sessionizer.lineage.active import read_lineage
from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer.lineage.checkpoint_record import CHECKPOINT_FILE
from sessionizer.lineage.drained import DRAINED_FILE
from sessionizer.lineage.excluded_ranges import read_excluded_ranges
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE
from sessionizer.state.lineages.origin import ORIGIN_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionizer.home.record_file import RecordFile
    from sessionizer.home.stream_home import StreamHome

GONE: Final = "the file is gone"


def find_damaged_records(home: StreamHome) -> tuple[SessionizerError, ...]:
    """Find the stream's damaged records, an error for each file. Opens no data. Raises nothing."""
    return tuple(_damages(home))


def _damages(home: StreamHome) -> Iterator[SessionizerError]:
    yield from _failure_of(lambda: read_desired(home))
    yield from _failure_of(lambda: read_operations(home))
    try:
        record = read_lineage(home)
    except SessionizerError as error:
        yield error
        return
    if record is None:
        return
    # with another id its tables would count as another home's
    yield from _failure_of(partial(_require, identity_file(home.control_base), missed=True))
    for read in _reads(home, record.lineage):
        yield from _failure_of(read)


def _reads(home: StreamHome, lineage: str) -> Iterator[Callable[[], object]]:
    """Yield a function that reads each record of the lineage.

    A file that every lineage has is missed once the lineage has run.
    """
    files = home.lineage(lineage)
    origin = ORIGIN_FILE.of(home, lineage)
    has_run = any(store_at(path).exists() for path in (files.batches, files.open_sessions, origin.path))
    for file in (CHECKPOINT_FILE.of(home, lineage), SPEC_FILE.of(home, lineage), TYPES_FILE.of(home, lineage)):
        yield partial(_require, file, missed=has_run)
    yield DRAINED_FILE.of(home, lineage).require
    yield lambda: read_excluded_ranges(home, lineage)
    yield lambda: read_canary(home, lineage)
    yield origin.require


def _require(file: RecordFile[Any], *, missed: bool) -> None:
    if file.require() is None and missed:
        raise DamagedFile(uri_of(file.path), GONE)


def _failure_of(read: Callable[[], object]) -> Iterator[SessionizerError]:
    try:
        read()
    except SessionizerError as error:
        yield error
