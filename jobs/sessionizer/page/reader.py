"""The reading of the page's documents from the platform. The fleet is read once for all readers of a moment."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sessionizer.control.history.files import KEPT_MS, History, Mark, MarkKind, oldest_record, read_history, read_marks
from sessionizer.control.records.operation_record import read_operations
from sessionizer.control.records.supervision_records import PauseRecord
from sessionizer.deployment.waiting import Pace, UpgradeState, choose_next
from sessionizer.errors import SessionizerError, UnknownStream
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import all_streams, find_view, read_records
from sessionizer.fleet.waves import Turn, find_turn
from sessionizer.home.clock import HOUR, epoch_ms
from sessionizer.home.control_store import CachedValue
from sessionizer.home.data_files import list_entries
from sessionizer.home.names import is_name
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.active import locate_data
from sessionizer.lineage.fingerprint import present_versions
from sessionizer.page.documents import LEAST_SPAN_MS, Past, describe_turn, stream_document, stream_row
from sessionizer.state.lineages.origin import origins_of
from sessionizer.state.savepoints.manifest import read_manifest
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import load_stream

_Read = TypeVar("_Read")
FRESH_MS: Final = 2_000
"""Milliseconds for which the table of the fleet is shared by its readers."""
SETTLED_MS: Final = 2_000
"""Milliseconds after which an unchanged file counts as written."""


@dataclass
class PageReader:
    """The platform's ``home`` and folder of specs (``streams``).

    ``read_pauses`` says of some streams whether the host has paused the DAG that supervises each, if it knows.
    ``state_of`` says the state of the run of an upgrade by its id. None: the host has no runs, so no upgrade has turns.
    """

    home: Path
    streams: Path
    read_pauses: Callable[[Collection[str]], Mapping[str, bool]] = lambda _: {}
    state_of: Callable[[str], str | None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _fleet: dict[str, Any] = field(default_factory=dict, init=False)
    _specs: dict[Path, tuple[tuple[int, ...], StreamSpec]] = field(default_factory=dict, init=False)
    _saved: dict[DataPath, Mark] = field(default_factory=dict, init=False)
    _records: dict[str, CachedValue[StreamView]] = field(default_factory=lambda: defaultdict(CachedValue), init=False)

    def fleet(self) -> dict[str, Any]:
        """Return the table of the fleet, at most ``FRESH_MS`` old. Raises InvalidSpec, ControlUnreachable."""
        with self._lock:
            now = epoch_ms()
            if not 0 <= now - self._fleet.get("at", 0) < FRESH_MS:
                found = all_streams(self.home, self.streams, self._load, self._read(present_versions()))
                views = [view for view in found if view.is_listed]
                judged = self._judge(views)
                turns = self._turns(judged, now)
                rows = [stream_row(view, _marks(view, now), now) | {"turn": turns.get(view.name)} for view in judged]
                self._fleet = {"at": now, "streams": rows}
            return self._fleet

    def stream(self, name: str, span: int, begin: int = 0) -> dict[str, Any] | None:
        """Return the document of a stream over the last ``span`` ms. None if the platform knows no such stream.

        It has the figures from ``begin`` (epoch ms) on: the reader may have the earlier ones.

        Raises InvalidSpec, DuplicateStream, DamagedFile, ControlUnreachable.
        """
        if not is_name(name):
            return None
        try:
            [view], now = self._judge([find_view(self.home, self.streams, name)]), epoch_ms()
        except UnknownStream:
            return None
        span = min(max(span, LEAST_SPAN_MS), KEPT_MS)
        marks = _marks(view, now)
        shown = [mark for mark in marks if mark.at >= now - span]
        since = max(now - span, begin)
        history = _read_home(view, lambda home: read_history(home, since, now, with_marks=False), History())
        past = Past(
            history=replace(history, marks=tuple(shown)),
            marks=marks,
            savepoints=self._savepoints(view, marks),
            lineages=_read_home(view, origins_of, {}),
            operations=_read_home(view, read_operations, []),
            begun_at=_begin_of(_read_home(view, oldest_record, None), marks),
        )
        return stream_document(view, past, now, span)

    def _load(self, file: Path) -> StreamSpec:
        """Return the spec in ``file``, parsed anew only if the file changed. Raises InvalidSpec.

        A file of the last seconds is not kept, because a clock's step may hide its next change. A spec with a schema
        is not, because the schema is in a file of its own.
        """
        try:
            found = file.stat()
        except OSError:
            return load_stream(file)  # it says what is wrong
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if file in self._specs and self._specs[file][0] == stamp:
            return self._specs[file][1]
        spec = load_stream(file)
        if epoch_ms() - found.st_ctime_ns // 1_000_000 > SETTLED_MS and not getattr(spec.source, "value_schema", None):
            self._specs[file] = (stamp, spec)
        return spec

    def _read(self, versions: Mapping[str, str]) -> Callable[[StreamHome, StreamSpec], StreamView]:
        """Return a reader of a stream's records, beside programs of these ``versions``. It keeps what it read."""
        return lambda home, spec: self._records[home.name].get(lambda: read_records(home, spec), home, spec, versions)

    def _turns(self, views: Sequence[StreamView], now: int) -> dict[str, dict[str, Any]]:
        """Return the streams whose upgrades take turns, and where each stands. Raises InvalidSpec for the pace."""
        read = ((view, _read_home(view, partial(self._find_turn, view, now), None)) for view in views)
        found = [(view, turn) for view, turn in read if turn]
        if not found:
            return {}
        turns, pace = [turn for _, turn in found], Pace.from_environment()
        chosen, failed = choose_next(turns, pace), sum(turn.state is UpgradeState.FAILED for turn in turns)
        return {view.name: describe_turn(turn, view, chosen, failed, pace) for view, turn in found}

    def _find_turn(self, view: StreamView, now: int, home: StreamHome) -> Turn | None:
        return find_turn(home, view.spec, view.waiting, self.state_of, now) if view.spec and self.state_of else None

    def _savepoints(self, view: StreamView, marks: Sequence[Mark]) -> list[Mark]:
        """Return the savepoints that are there, the oldest first. Marks of 7 days if they cannot be seen from here."""
        told = {mark.savepoint or "": mark for mark in marks if mark.kind is MarkKind.SAVEPOINT}
        folder = locate_data(view.home).savepoints if view.home else None
        if not isinstance(folder, Path):  # the page's host needs no key for the store of the data
            return [*told.values()]
        try:
            names = {entry.name for entry in list_entries(folder)}
        except OSError:
            return [*told.values()]
        found = [told.get(name) or self._read_savepoint(SavepointHome(folder / name)) for name in names]
        return sorted(filter(None, found), key=lambda mark: mark.at)

    def _read_savepoint(self, home: SavepointHome) -> Mark | None:
        """Return a savepoint as its mark was, None if it is not complete. A manifest never changes."""
        if home.root not in self._saved:
            manifest = None
            with suppress(SessionizerError, OSError):
                manifest = read_manifest(home)
            if manifest is None:
                return None
            made = {name: getattr(manifest, name) for name in ("lineage", "batch_id", "bytes")}
            kind, what, at = MarkKind.SAVEPOINT, str(manifest.kind), manifest.batch_at
            self._saved[home.root] = Mark(kind=kind, at=at, what=what, savepoint=manifest.id, **made)
        return self._saved[home.root]

    def _judge(self, views: Sequence[StreamView]) -> list[StreamView]:
        paused = self.read_pauses([view.name for view in views])
        return [
            replace(view, noted=PauseRecord(paused=paused[view.name], at=view.now, taken=view.taken))
            if view.name in paused
            else view
            for view in views
        ]


def _read_home(view: StreamView, read: Callable[[StreamHome], _Read], otherwise: _Read) -> _Read:
    """Return what ``read`` finds in the stream's home, else ``otherwise``. The health tells of a damage."""
    try:
        return read(view.home) if view.home else otherwise
    except (SessionizerError, OSError):
        return otherwise


def _marks(view: StreamView, now: int) -> list[Mark]:
    return _read_home(view, lambda home: read_marks(home, now - KEPT_MS, now), [])


def _begin_of(oldest: int | None, marks: Sequence[Mark]) -> int | None:
    """Return the begin of the history. ``oldest``: its oldest record, which may be a whole hour of figures."""
    is_first = bool(marks) and oldest is not None and oldest <= marks[0].at < oldest + HOUR
    return marks[0].at if is_first else oldest
