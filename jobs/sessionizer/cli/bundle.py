"""``sessionizer bundle``: all that helps to understand a stream, in one file to send."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from sessionizer.cli.places import Home, Stream, Streams, home_folder, streams_folder
from sessionizer.cli.terminal import say
from sessionizer.errors import InvalidSpec, UnwritablePath
from sessionizer.fleet.bundle import collect_bundle, write_bundle
from sessionizer.fleet.streams import find_view


def bundle(
    stream: Stream,
    *,
    to: Annotated[
        Path | None, typer.Option(help="The new file. Default: STREAM-bundle-TIME.tar.gz in this folder.")
    ] = None,
    streams: Streams = None,
    home: Home = None,
) -> None:
    """Write records, history, logs and the checkpoint's inspection into one file, without credentials and events."""
    specs = streams_folder(streams)
    file = to or Path(f"{stream}-bundle-{datetime.now(UTC):%Y%m%dT%H%M%S}.tar.gz")
    found = collect_bundle(find_view(home_folder(home), specs, stream), specs)
    try:
        write_bundle(found, stream, file)
    except FileExistsError as error:
        raise InvalidSpec("--to", str(file), "a new file") from error
    except OSError as error:
        raise UnwritablePath(file, "the bundle", error.strerror or str(error)) from error
    for name, why in found.missing.items():
        say(f"note: {name} is not in it: {why}")
    typer.echo(f"{file}: {len(found.files)} files, {file.stat().st_size:,} bytes")
