"""Views of all streams: the one place that reads the facts about them. Light: small files, no Spark."""

import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from sessionizer.control.history.files import KEPT_MS, MarkKind, oldest_record, read_history, read_marks
from sessionizer.control.records.erasure_record import read_unswept
from sessionizer.control.records.operation_record import pending_operation, read_operations
from sessionizer.control.records.supervision_records import (
    HEALTH_FILE,
    PAUSE_FILE,
    SUPERVISION_FILE,
    WATCH_FILE,
    WatchRecord,
    read_desired,
)
from sessionizer.control.status.driver_status import read_status
from sessionizer.control.status.unfinished_operation import read_unfinished
from sessionizer.control.timeouts import read_configured_timeouts
from sessionizer.deployment.running_spec import pending_changes
from sessionizer.deployment.waiting import find_waiting
from sessionizer.errors import DamagedFile, DuplicateStream, SessionizerError, UnforeseenContent, UnknownStream
from sessionizer.fleet.stream_view import StreamView
from sessionizer.home.clock import MINUTE, epoch_ms
from sessionizer.home.control_store import CachedValue, Store
from sessionizer.home.home_identity import GONE, identity_file
from sessionizer.home.record_file import RecordFile
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome, stream_homes
from sessionizer.lineage.active import DRAINED_FILE, LINEAGE_FILE, examine_active, examine_drain, read_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.canary.canary_record import examine_canary, read_canary, standing_line
from sessionizer.lineage.canary.judge import describe_late_backlog
from sessionizer.lineage.excluded_ranges import examine_excluded_ranges, read_excluded_ranges
from sessionizer.lineage.fingerprint import CHECKPOINT_FILE, read_fingerprint
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE
from sessionizer.state.lineages.origin import ORIGIN_FILE
from sessionizer.state.lineages.table_changes import changes_of_active
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import SPEC_SUFFIXES, load_stream, spec_files

log = logging.getLogger(__name__)
WINDOW_MS: Final = 15 * MINUTE
"""Milliseconds of history that the rules look at."""
PAUSE_KNOWN_MS: Final = 15 * MINUTE
"""Milliseconds for which Airflow's note on a stream's DAGs counts. It is made every five minutes."""


def read_records(home: StreamHome, spec: StreamSpec) -> StreamView:
    """Read the records that change with commands and starts. Raises DamagedFile, ControlUnreachable."""
    fingerprint = examine_active(home, read_fingerprint)
    view = StreamView(
        name=spec.name,
        home=home,
        spec=spec,
        operations=tuple(read_operations(home)),
        lineage=LINEAGE_FILE.of(home).read(),
        bundle=fingerprint.bundle if fingerprint else None,
        drain=examine_drain(home),
        canary=examine_canary(home),
        excluded_ranges=tuple(examine_excluded_ranges(home).lines()),
        table_changes=changes_of_active(home),
        damages=tuple(_find_damages(home)),
        unswept=tuple(read_unswept(home)),
    )
    if view.pending is not None or view.is_drained:  # an upgrade or an apply would be refused
        return view
    return replace(view, changes=pending_changes(home, spec), waiting=find_waiting(home, spec))


def read_records_once(home: StreamHome, spec: StreamSpec) -> StreamView:
    """Do ``read_records``, which asks for some records many times, and read each record once."""
    return CachedValue[StreamView]().get(lambda: read_records(home, spec))


def _find_damages(home: StreamHome) -> Iterator[SessionizerError]:
    """Yield an error for each damaged record that the stream's driver needs. Opens no data. Raises nothing."""
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
    lineage = record.lineage
    files, origin = home.lineage(lineage), ORIGIN_FILE.of(home, lineage)
    has_run = any(Store(path).exists() for path in (files.batches, files.open_sessions, origin.path))
    # a file that every lineage has is missed once the lineage has run
    for file in (CHECKPOINT_FILE.of(home, lineage), SPEC_FILE.of(home, lineage), TYPES_FILE.of(home, lineage)):
        yield from _failure_of(partial(_require, file, missed=has_run))
    yield from _failure_of(DRAINED_FILE.of(home, lineage).require)
    yield from _failure_of(lambda: read_excluded_ranges(home, lineage))
    yield from _failure_of(lambda: read_canary(home, lineage))
    yield from _failure_of(origin.require)


def _require(file: RecordFile[Any], *, missed: bool) -> None:
    if file.require() is None and missed:
        raise DamagedFile(uri_of(file.path), GONE)


def _failure_of(read: Callable[[], object]) -> Iterator[SessionizerError]:
    try:
        read()
    except SessionizerError as error:
        yield error


def all_streams(
    platform: Path,
    specs: Path,
    load: Callable[[Path], StreamSpec] = load_stream,
    read: Callable[[StreamHome, StreamSpec], StreamView] = read_records_once,
) -> Iterator[StreamView]:
    """Yield the streams with a file in the folder ``specs``, by name, then the streams that only have a home.

    ``load`` reads a file, and ``read`` the records of its stream. They may keep what they read, and raise what
    ``load_stream`` and ``read_records`` raise.

    The problem of a stream is in its view, and ends no other view. Raises InvalidSpec if the folder of specs cannot be
    listed, ControlUnreachable or UnreadablePath if the platform's home cannot. Then no stream is asked for, because
    each would wait for the store.
    """
    named = defaultdict(list)
    for file in spec_files(specs):
        named[file.stem].append(file)
    homes = stream_homes(platform)
    for name, files in named.items():
        yield _isolate(name, partial(_view_files, name, files, platform, load, read))
    for home in homes:
        if home.name not in named:
            yield _isolate(home.name, partial(_view_home, home))


def one_stream(platform: Path, specs: Path, name: str) -> StreamView:
    """Return the stream, also with a broken spec. Raises UnknownStream without one, InvalidSpec, ControlUnreachable."""
    files = spec_files(specs)
    named = [file for file in files if file.stem == name]
    if named:
        return _isolate(name, partial(_view_files, name, named, platform, load_stream, read_records_once))
    view = _isolate(name, lambda: _view_home(StreamHome.of(platform, name)))
    if not view.is_listed:
        raise UnknownStream(name, {file.stem for file in files})
    return view


def find_view(platform: Path, specs: Path, name: str) -> StreamView:
    """Return the stream, also with a broken spec or a home. Raises UnknownStream, InvalidSpec, ControlUnreachable."""
    try:
        return one_stream(platform, specs, name)
    except UnknownStream:
        home = StreamHome.of(platform, name)
        if not Store(home.control).exists():
            raise
        return _isolate(name, partial(_view_home, home))


def _isolate(name: str, view: Callable[[], StreamView]) -> StreamView:
    try:
        return view()
    except SessionizerError as error:
        return _view_problem(name, error)
    except Exception as error:
        log.warning("stream %s cannot be shown", name, exc_info=error)
        return _view_problem(name, UnforeseenContent(name, error))


def _view_problem(name: str, error: SessionizerError) -> StreamView:
    return StreamView(name=name, now=epoch_ms(), problem=error)


def view_spec(
    spec: StreamSpec, platform: Path, read: Callable[[StreamHome, StreamSpec], StreamView] = read_records_once
) -> StreamView:
    """Return the stream of ``spec``. Raises InvalidSpec, DamagedFile, ControlUnreachable."""
    home = StreamHome.of(platform, spec.name)
    return _observe(home, read(home, spec))


def _view_files(
    name: str,
    files: list[Path],
    platform: Path,
    load: Callable[[Path], StreamSpec],
    read: Callable[[StreamHome, StreamSpec], StreamView],
) -> StreamView:
    """Return the stream of a spec file, or of two, for which Airflow makes no DAGs, with its driver and its problem."""
    try:
        if len(files) > 1:
            raise DuplicateStream(name, files)
        return view_spec(load(files[0]), platform, read)
    except SessionizerError as error:
        try:
            home = StreamHome.of(platform, name)
            return _observe(home, StreamView(name=name, home=home, problem=error))
        except SessionizerError as unseen:
            return _view_problem(name, unseen)


def _view_home(home: StreamHome) -> StreamView:
    """Return the stream that has a home, and no file here."""
    is_watched = bool(has_watched_spec(home.name, WATCH_FILE.of(home).read()))
    return _observe(home, StreamView(name=home.name, home=home, specified=is_watched))


def _observe(home: StreamHome, view: StreamView) -> StreamView:
    """Add what changes with batches and looks. Raises DamagedFile, ControlUnreachable, InvalidSpec for a limit."""
    now, limits = epoch_ms(), read_configured_timeouts()
    driver, watch, noted = read_status(home, now, limits), WATCH_FILE.of(home).read(), PAUSE_FILE.of(home).read()
    view = replace(
        view,
        now=now,
        limits=limits,
        driver=driver,
        supervision=SUPERVISION_FILE.of(home).read(),
        watch=watch,
        has_watched_spec=has_watched_spec(home.name, watch),
        noted=noted if noted is not None and now - noted.at <= PAUSE_KNOWN_MS else None,
        looks=HEALTH_FILE.of(home).read(),
        lineage=view.lineage or LINEAGE_FILE.of(home).read(),
        canary_line=_canary_line(home, view),
        returned_for=_returned_for(home, view),
        late_backlog=_late_backlog(home, now) if view.spec else None,
        **_read_past(home, now, saves=view.save_every_ms is not None),
    )
    try:
        pending = view.pending if view.spec else pending_operation(home)
        return replace(view, unfinished=read_unfinished(home, pending, driver.owner, now))
    except SessionizerError:
        if view.spec:
            raise
        return view


def _read_past(home: StreamHome, now: int, *, saves: bool) -> dict[str, Any]:
    """Return the facts of the view about the last minutes, the disk, and the savepoints if the stream ``saves`` any."""
    rooms = [(free, str(each)) for each in (home.control, home.data) if (free := _free_bytes(each)) is not None]
    free, disk = min(rooms, default=(None, ""))
    past: dict[str, Any] = {"free_bytes": free, "disk": disk}
    with suppress(OSError):
        past["samples"] = read_history(home, now - WINDOW_MS, now, with_marks=False).samples
    if saves:
        past["history_since"] = oldest_record(home)
        with suppress(OSError):
            marks = read_marks(home, now - KEPT_MS, now)
            past["saved_at"] = max((mark.at for mark in marks if mark.kind is MarkKind.SAVEPOINT), default=None)
    return past


def _free_bytes(folder: object) -> int | None:
    if not isinstance(folder, Path):
        return None
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize if disk.f_blocks else None


def _canary_line(home: StreamHome, view: StreamView) -> str | None:
    if view.canary is None:
        return None
    try:
        return standing_line(view.canary, BatchLog(home.lineage(view.canary.lineage).batches).life)
    except SessionizerError as error:
        return f"the figures of its canary are unknown: {error}"


def _returned_for(home: StreamHome, view: StreamView) -> str | None:
    """Return why the lineage had failed that the newest operation left. None also if its record is damaged."""
    left = view.operations[-1].lineage_from if view.operations else None
    with suppress(SessionizerError):
        canary = read_canary(home, left) if left else None
        return canary.reason if canary else None
    return None


def _late_backlog(home: StreamHome, now: int) -> str | None:
    with suppress(SessionizerError):  # a finding tells of a damaged file
        lineage = read_lineage(home)
        if lineage is not None:
            return describe_late_backlog(lineage, BatchLog(home.lineage(lineage.lineage).batches).first, now)
    return None


def has_watched_spec(name: str, watch: WatchRecord | None) -> bool | None:
    """Return whether the spec by which Airflow watched the stream last is still there. None if that is not known."""
    if watch is None or watch.streams is None or not Path(watch.streams).is_dir():
        return None
    return any((Path(watch.streams) / f"{name}{suffix}").is_file() for suffix in SPEC_SUFFIXES)
