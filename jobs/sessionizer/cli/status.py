"""``sessionizer status``: how the streams do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import AsJson, Home, Streams, home_folder, streams_folder
from sessionizer.cli.status_table import print_table
from sessionizer.deployment.running_spec import pending_line
from sessionizer.fleet.streams import all_streams, one_stream
from sessionizer.home.clock import epoch_ms

if TYPE_CHECKING:
    from sessionizer.fleet.stream_view import StreamView


def status(
    stream: Annotated[str | None, typer.Argument(help="Name of a stream; all if not given.")] = None,
    *,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
) -> None:
    """Show what each stream is doing, and what to do where something is wrong."""
    folder, platform = streams_folder(streams), home_folder(home)
    if stream:
        found = [one_stream(platform, folder, stream)]
    else:
        found = [view for view in all_streams(platform, folder) if view.specified or view.is_orphan]
    if as_json:
        typer.echo(json.dumps([view.to_json() for view in found], indent=1))
        return
    print_table(found, epoch_ms())
    for view in found:
        for line in _lines(view):
            typer.echo(f"{view.name}: {line}")


def _lines(view: StreamView) -> list[str]:
    """What no column has room for."""
    lines = [line for line in (view.running, view.advice) if line]
    if view.drain is not None and view.drain.over_at is not None:
        lines.append(f"drained: over since {view.drain.moment}, batch {view.drain.batch_id}")
    if view.changes:
        lines.append(pending_line(view.name, view.changes))
    return lines
