"""Views of all streams: the one place that gathers the facts about them. Light: small files, no Spark."""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.causes.table import remedy_for
from sessionizer.control.records.airflow_records import SUPERVISION_FILE, WATCH_FILE
from sessionizer.control.status.read_status import read_status
from sessionizer.control.status.unfinished_operation import read_unfinished, read_unfinished_of
from sessionizer.control.timeouts import read_configured_timeouts
from sessionizer.deployment.waiting import what_follows
from sessionizer.errors import DuplicateStream, SessionizerError, UnforeseenContent, UnknownStream
from sessionizer.fleet.advice import advice_on
from sessionizer.fleet.health.facts import has_looked
from sessionizer.fleet.operation_words import describe_abandoned, describe_automatic_rollback
from sessionizer.fleet.read_facts import looked_at, read_facts
from sessionizer.fleet.stream_records import read_records
from sessionizer.fleet.stream_view import StreamView
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import store_at
from sessionizer.home.stream_home import StreamHome, stream_homes
from sessionizer.lineage.active import read_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer.lineage.canary.canary_watch import canary_failure, standing_line
from sessionizer.lineage.canary.judge import CanaryOutcome, late_backlog_line
from sessionizer.stream_spec.loading.folder import SPEC_SUFFIXES, load_stream, spec_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.control.status.unfinished_operation import UnfinishedOperation
    from sessionizer.fleet.stream_records import StreamRecords
    from sessionizer.lineage.canary.canary_record import CanaryRecord
    from sessionizer.stream_spec.document.stream import StreamSpec

log = logging.getLogger(__name__)


def all_streams(
    platform: Path,
    specs: Path,
    load: Callable[[Path], StreamSpec] = load_stream,
    read: Callable[[StreamHome, StreamSpec], StreamRecords] = read_records,
) -> Iterator[StreamView]:
    """Yield the streams with a file in the folder ``specs``, by name, then the streams that only have a home.

    ``load`` reads a file, and ``read`` the records of its stream. They may keep what they read, and raise what
    ``load_stream`` and ``read_records`` raise.

    The problem of a stream is in its view, and ends no other view. Raises InvalidSpec if the folder of specs cannot be
    listed, ControlUnreachable or UnreadablePath if the platform's home cannot.
    """
    named = defaultdict(list)
    for file in spec_files(specs):
        named[file.stem].append(file)
    for name, files in named.items():
        yield _isolate(name, partial(_view_files, name, files, platform, load, read))
    for home in stream_homes(platform):
        if home.name not in named:
            yield _isolate(home.name, partial(view_home, home))


def one_stream(platform: Path, specs: Path, name: str) -> StreamView:
    """Return the stream ``name``, also one with a broken spec.

    Raises UnknownStream if it has no spec, no live driver and no unfinished command. Raises InvalidSpec for a folder
    that cannot be listed and a name that is none, ControlUnreachable.
    """
    files = spec_files(specs)
    named = [file for file in files if file.stem == name]
    if named:
        return _isolate(name, partial(_view_files, name, named, platform, load_stream, read_records))
    view = _isolate(name, partial(view_home, StreamHome.of(platform, name)))
    if not view.is_listed:
        raise UnknownStream(name, {file.stem for file in files})
    return view


def find_view(platform: Path, specs: Path, name: str) -> StreamView:
    """Return the stream ``name``, also one with a broken spec, or with a home only.

    Raises UnknownStream, InvalidSpec for a name that is none, ControlUnreachable.
    """
    try:
        return one_stream(platform, specs, name)
    except UnknownStream:
        home = StreamHome.of(platform, name)
        if not store_at(home.control).exists():
            raise
        return _isolate(name, partial(view_home, home))


def _isolate(name: str, view: Callable[[], StreamView]) -> StreamView:
    """Return the view of stream ``name``, and one with the problem if the view cannot be made."""
    try:
        return view()
    except SessionizerError as error:
        return view_problem(name, error)
    except Exception as error:
        log.warning("stream %s cannot be shown", name, exc_info=error)
        return view_problem(name, UnforeseenContent(name, error))


def view_problem(name: str, error: SessionizerError) -> StreamView:
    """Return a stream of which nothing is known but the problem."""
    blind = StreamView(name=name, home=None, problem=error, advice=f"{error} → {remedy_for(error)}")
    return replace(blind, facts=read_facts(blind, None, epoch_ms()))


def view_spec(
    spec: StreamSpec, platform: Path, read: Callable[[StreamHome, StreamSpec], StreamRecords] = read_records
) -> StreamView:
    """Return the stream of ``spec``. Raises InvalidSpec, DamagedFile, ControlUnreachable."""
    home, now = StreamHome.of(platform, spec.name), epoch_ms()
    driver, supervision = _driver(home, now), SUPERVISION_FILE.of(home).read()
    records = read(home, spec)
    if not records.takes_changes:
        records = replace(records, changes=(), waiting=None)
    operations, canary, waiting = records.operations, records.canary, records.waiting
    unfinished = read_unfinished_of(home, records.pending, driver.owner, now)
    view = StreamView(
        name=spec.name,
        home=home,
        driver=driver,
        supervision=supervision,
        advice=advice_on(
            home,
            driver,
            supervision,
            unfinished,
            supervised=supervision is not None or bool(has_watched_spec(home)),
            is_watched=has_looked(looked_at(home), now),
            is_drained=records.is_drained,
        ),
        changes=records.changes,
        waiting=waiting,
        waiting_line=what_follows(waiting, spec.upgrades, now) if waiting else None,
        running=driver.under_way if driver.state.is_live else None,
        drain=records.drain,
        canary=canary,
        canary_line=_canary_line(home, canary) if canary else None,
        excluded_ranges=records.excluded_ranges,
        table_changes=records.table_changes,
        unfinished=unfinished,
        damages=records.damages,
        last_operation=operations[-1] if operations else None,
        operation_line=describe_abandoned(operations, now) or _returned_line(home, operations, now),
        late_backlog=_late_backlog(home, now),
        bundle=records.bundle,
    )
    return replace(view, facts=read_facts(view, spec, now))


def _returned_line(home: StreamHome, operations: Sequence[OperationRecord], now: int) -> str | None:
    try:
        canary = read_canary(home, operations[-1].lineage_from) if operations and operations[-1].lineage_from else None
    except SessionizerError:  # the line of damages names the file
        canary = None
    return describe_automatic_rollback(operations, canary.course.reason if canary else None, now)


def _late_backlog(home: StreamHome, now: int) -> str | None:
    try:
        lineage = read_lineage(home)
        if lineage is None:
            return None
        return late_backlog_line(home.name, lineage, BatchLog(home.lineage(lineage.lineage).batches).first, now)
    except SessionizerError:  # the advice reports a damaged file
        return None


def _canary_line(home: StreamHome, canary: CanaryRecord) -> str:
    """Describe the state of the canary. For a failed one, add the remedy."""
    try:
        line = standing_line(canary, BatchLog(home.lineage(canary.lineage).batches).life)
    except SessionizerError as error:
        return f"the figures of its canary are unknown: {error}"
    return f"{line} → {remedy_for(canary_failure(home, canary))}" if canary.outcome is CanaryOutcome.FAILED else line


def view_home(home: StreamHome) -> StreamView:
    """Return the stream that has a home, and no file here. Raises ControlUnreachable."""
    now = epoch_ms()
    driver, supervision = _driver(home, now), SUPERVISION_FILE.of(home).read()
    unfinished = _unfinished(home, driver, now)
    view = StreamView(
        name=home.name,
        home=home,
        specified=bool(has_watched_spec(home)),
        driver=driver,
        supervision=supervision,
        advice=advice_on(home, driver, supervision, unfinished, supervised=False) if unfinished else None,
        unfinished=unfinished,
    )
    if view.is_orphan:
        view = replace(view, advice=f"ORPHAN: {view.orphan_line}")
    return replace(view, facts=read_facts(view, None, now))


def has_watched_spec(home: StreamHome) -> bool | None:
    """Return whether the spec by which Airflow watched the stream last is still where it was.

    None if that is not known: Airflow never watched it, or the folder of its specs is not on this machine.
    """
    watch = WATCH_FILE.of(home).read()
    if watch is None or watch.streams is None or not Path(watch.streams).is_dir():
        return None
    return any((Path(watch.streams) / f"{home.name}{suffix}").is_file() for suffix in SPEC_SUFFIXES)


def _view_files(
    name: str,
    files: list[Path],
    platform: Path,
    load: Callable[[Path], StreamSpec],
    read: Callable[[StreamHome, StreamSpec], StreamRecords],
) -> StreamView:
    """Return the stream of a spec file, with its problem if any. An unreadable spec hides nothing about the driver.

    Two files of one name are a problem, too, because Airflow makes no DAGs of either.
    """
    try:
        if len(files) > 1:
            raise DuplicateStream(name, files)
        return view_spec(load(files[0]), platform, read)
    except SessionizerError as error:
        told = f"{error} → {remedy_for(error)}"
        try:
            home = StreamHome.of(platform, name)
            now = epoch_ms()
            driver, supervision = _driver(home, now), SUPERVISION_FILE.of(home).read()
        except SessionizerError as unseen:
            return view_problem(name, unseen)
        view = StreamView(
            name=name,
            home=home,
            problem=error,
            driver=driver,
            supervision=supervision,
            advice=told,
            unfinished=_unfinished(home, driver, now),
        )
        return replace(view, facts=read_facts(view, None, now))


def _unfinished(home: StreamHome, driver: DriverStatus, now: int) -> UnfinishedOperation | None:
    """Return the command that has a stream without a spec that can be read. None also if its record is damaged."""
    with suppress(SessionizerError):
        return read_unfinished(home, driver.owner, now)
    return None


def _driver(home: StreamHome, now: int) -> DriverStatus:
    return read_status(home, now, read_configured_timeouts())
