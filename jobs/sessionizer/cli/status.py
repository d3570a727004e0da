"""``sessionizer status``: how the streams do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.advice import advice_on
from sessionizer.cli.patience import patience
from sessionizer.cli.places import AsJson, Home, Streams, home_folder, streams_folder
from sessionizer.cli.remedies import remedy_for
from sessionizer.cli.status_table import print_table
from sessionizer.cli.stream_status import StreamStatus
from sessionizer.control.records.supervision_record import read_supervision
from sessionizer.control.status.newest_driver import newest_driver
from sessionizer.control.status.progress_line import running_line
from sessionizer.deployment.running_spec import pending_changes, pending_line
from sessionizer.errors import SessionizerError, UnknownStream
from sessionizer.fleet.orphans import Orphan, find_orphan, find_orphans
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.drained import examine_drain
from sessionizer.stream_spec.loading.folder import find_stream, load_stream, spec_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessionizer.stream_spec.document.stream import StreamSpec


def status(
    stream: Annotated[str | None, typer.Argument(help="Name of a stream; all if not given.")] = None,
    *,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
) -> None:
    """Show what each stream is doing, and what to do where something is wrong."""
    folder, platform = streams_folder(streams), home_folder(home)
    found = [_of_one(folder, platform, stream)] if stream else list(_of_all(folder, platform))
    if as_json:
        typer.echo(json.dumps([status.to_json() for status in found], indent=1))
        return
    print_table(found, epoch_ms())
    for status in found:
        if status.running:
            typer.echo(f"{status.stream}: {status.running}")
        if status.advice:
            typer.echo(f"{status.stream}: {status.advice}")
        if status.drain is not None and status.drain.over_at is not None:
            typer.echo(f"{status.stream}: drained: over since {status.drain.moment}, batch {status.drain.batch_id}")
        if status.changes:
            typer.echo(f"{status.stream}: {pending_line(status.stream, status.changes)}")


def _of_one(folder: Path, platform: Path, stream: str) -> StreamStatus:
    try:
        return _of_spec(find_stream(folder, stream), platform)
    except UnknownStream:
        orphan = find_orphan(platform, stream)
        if orphan is None:
            raise
        return _of_orphan(orphan)


def _of_all(folder: Path, platform: Path) -> Iterator[StreamStatus]:
    files = spec_files(folder)
    for path in files:
        try:
            yield _of_spec(load_stream(path), platform)
        except SessionizerError as error:
            yield StreamStatus(path.stem, None, f"{error} → {remedy_for(error)}")
    yield from map(_of_orphan, find_orphans(platform, {path.stem for path in files}))


def _of_orphan(orphan: Orphan) -> StreamStatus:
    return StreamStatus(orphan.name, orphan.seen, f"ORPHAN: {orphan.line}")


def _of_spec(spec: StreamSpec, platform: Path) -> StreamStatus:
    where, now = StreamHome.of(platform, spec.name), epoch_ms()
    newest = newest_driver(where, now, **patience()._asdict())
    advice, beat = advice_on(where, newest, read_supervision(where), now), newest.seen.heartbeat
    running = running_line(beat, now) if beat and newest.seen.state.is_live else None
    changes, drain = pending_changes(where, spec), examine_drain(where)
    return StreamStatus(spec.name, newest.seen, advice, changes, running, drain)
