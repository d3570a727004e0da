"""Options that say where things are, shared by the commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from sessionizer.spec.loading import find_stream

if TYPE_CHECKING:
    from sessionizer.spec.stream import StreamSpec

Streams: TypeAlias = Annotated[
    Path | None, typer.Option(help="Folder of the stream specs [env SESSIONIZER_STREAMS, default dags/streams].")
]
Home: TypeAlias = Annotated[
    Path | None, typer.Option(help="The platform's home [env SESSIONIZER_HOME, default .sessionizer].")
]


def streams_folder(given: Path | None) -> Path:
    """The folder of specs: as given, else from the environment, else beside this code."""
    beside_us = Path(__file__).parents[3] / "dags" / "streams"
    return given or Path(os.environ.get("SESSIONIZER_STREAMS", beside_us))


def stream_spec(streams: Path | None, name: str) -> StreamSpec:
    """The spec of a stream. Raises UnknownStream, DuplicateStream, InvalidSpec."""
    return find_stream(streams_folder(streams), name)
