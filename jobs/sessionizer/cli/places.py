"""Options that say where things are, shared by the commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from sessionizer.home.platform_home import platform_home
from sessionizer.stream_spec.loading.folder import find_stream

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.stream import StreamSpec

Stream: TypeAlias = Annotated[str, typer.Argument(help="Name of the stream.")]
Streams: TypeAlias = Annotated[
    Path | None, typer.Option(help="Folder of the stream specs [env SESSIONIZER_STREAMS, default dags/streams].")
]
Home: TypeAlias = Annotated[
    Path | None, typer.Option(help="The platform's home [env SESSIONIZER_HOME, default .sessionizer].")
]
Master: TypeAlias = Annotated[
    str | None, typer.Option(help="Spark master; spark-submit's if run by it, else local[*] [env SESSIONIZER_MASTER].")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def streams_folder(given: Path | None) -> Path:
    """The folder of specs: as given, else from the environment, else beside this code."""
    beside_us = Path(__file__).parents[3] / "dags" / "streams"
    return given or Path(os.environ.get("SESSIONIZER_STREAMS", beside_us))


def home_folder(given: Path | None) -> Path:
    """The platform's home, absolute: as given, else from the environment, else beneath the current folder."""
    return given.expanduser().absolute() if given else platform_home()


def stream_spec(streams: Path | None, name: str) -> StreamSpec:
    """The spec of a stream. Raises UnknownStream, DuplicateStream, InvalidSpec."""
    return find_stream(streams_folder(streams), name)


def spark_master(given: str | None) -> str | None:
    """As given; else None under spark-submit, which decides; else the whole machine."""
    if given or "PYSPARK_GATEWAY_PORT" in os.environ:
        return given
    return os.environ.get("SESSIONIZER_MASTER", "local[*]")
