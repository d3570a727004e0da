"""Damage of the records that a stream's driver needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.control.records.desired_state import read_desired
from sessionizer.control.records.operation_record import read_operations
from sessionizer.errors import DamagedFile, SessionizerError
from sessionizer.home.control_store import is_there
from sessionizer.home.data_root import uri_of
from sessionizer.home.json_file import require_undamaged
from sessionizer.home.platform_home import HomeIdentity, identity_file
from sessionizer.lineage.active import read_lineage
from sessionizer.lineage.checkpoint_record import CheckpointRecord
from sessionizer.lineage.drained import read_drain
from sessionizer.lineage.kept_spec import read_lineage_spec
from sessionizer.lineage.kept_types import read_kept_types
from sessionizer.lineage.left_out import read_left_out
from sessionizer.lineage.trial.trial_record import read_trial
from sessionizer.state.lineages.origin import read_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionizer.home.control_root import ControlPath
    from sessionizer.home.stream_home import StreamHome

GONE: Final = "the file is gone"


def damaged_records(home: StreamHome) -> tuple[SessionizerError, ...]:
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
    yield from _failure_of(lambda: _require_identity(home))
    for read in _reads(home, record.lineage):
        yield from _failure_of(read)


def _reads(home: StreamHome, lineage: str) -> Iterator[Callable[[], object]]:
    """Yield a function that reads each record of the lineage.

    A file that every lineage has is missed once the lineage has run.
    """
    files = home.lineage(lineage)
    has_run = any(map(is_there, (files.batches, files.open_sessions, files.origin)))
    yield lambda: _required(
        files.checkpoint_record, require_undamaged(CheckpointRecord, files.checkpoint_record), missed=has_run
    )
    yield lambda: _required(files.spec, read_lineage_spec(home, lineage), missed=has_run)
    yield lambda: _required(files.types, read_kept_types(home, lineage), missed=has_run)
    yield lambda: read_drain(home, lineage)
    yield lambda: read_left_out(home, lineage)
    yield lambda: read_trial(home, lineage)
    yield lambda: read_origin(home, lineage)


def _require_identity(home: StreamHome) -> None:
    """Raise DamagedFile if the home's id is lost. With another id its tables would count as another home's."""
    path = identity_file(home.control_base)
    _required(path, require_undamaged(HomeIdentity, path), missed=True)


def _required(path: ControlPath, found: object, *, missed: bool) -> None:
    if found is None and missed:
        raise DamagedFile(uri_of(path), GONE)


def _failure_of(read: Callable[[], object]) -> Iterator[SessionizerError]:
    try:
        read()
    except SessionizerError as error:
        yield error
