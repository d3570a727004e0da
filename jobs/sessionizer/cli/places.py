"""Options for places, shared by the commands."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from sessionizer.errors import InvalidSpec, UnknownStream
from sessionizer.home.control_store import Store
from sessionizer.home.data_files import require_reachable
from sessionizer.home.names import check_name
from sessionizer.home.roots import (
    DATA_VARIABLE,
    DEFAULT_STREAMS,
    control_root,
    data_root,
    home_at,
    platform_home,
    uri_of,
)
from sessionizer.home.stream_home import StreamHome, stream_homes
from sessionizer.lineage.active import locate_data
from sessionizer.stream_spec.spec_folder import find_stream, spec_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.home.roots import DataPath
    from sessionizer.stream_spec.document.stream import StreamSpec


def _check_stream(typed: str | None) -> str | None:
    """Refuse a name that no stream can have. Raises InvalidSpec."""
    return typed and check_name("STREAM", typed)


Stream: TypeAlias = Annotated[str, typer.Argument(help="Name of the stream.", callback=_check_stream)]
StreamOrAll: TypeAlias = Annotated[
    str | None, typer.Argument(help="Name of a stream. Default: all.", callback=_check_stream)
]
Streams: TypeAlias = Annotated[
    Path | None, typer.Option(help="Folder of the stream specs. Default: SESSIONIZER_STREAMS, else dags/streams.")
]
Home: TypeAlias = Annotated[
    Path | None, typer.Option(help="The platform's home. Default: SESSIONIZER_HOME, else .sessionizer.")
]
Data: TypeAlias = Annotated[
    str | None,
    typer.Option(help="The data root (a path or URI, such as s3://…). Default: SESSIONIZER_DATA, else the home."),
]
Master: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Spark master. Default: SESSIONIZER_MASTER, else that of spark-submit, else local on all cores."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def specs_folder(given: Path | None) -> Path:
    """Return the folder of specs: as given, else from the environment, else beneath the current folder."""
    return given or Path(os.environ.get("SESSIONIZER_STREAMS") or DEFAULT_STREAMS)


def home_folder(given: Path | None) -> Path:
    """Return the platform's home, absolute: as given, else from the environment, else beneath the current folder.

    Raises InvalidSpec for a URI.
    """
    return home_at(str(given), "--home") if given else platform_home()


def nothing_known(platform: Path, streams: Iterable[str]) -> str:
    """Say that the home has no record of these streams. Another home may have them."""
    control = control_root(platform)
    where = f"the home {platform}" if control == platform else f"the control root {uri_of(control)}"
    return f"{where} knows nothing of {', '.join(streams)}. Another one: --home or SESSIONIZER_HOME"


def require_known_stream(where: StreamHome, streams: Path | None = None) -> None:
    """Raise UnknownStream if the home has no record of the stream, and no file of ``streams`` has its name.

    If there is only the file, say so on stderr. Raises ControlUnreachable.
    """
    if Store(where.control).exists():
        return
    nowhere = nothing_known(where.platform, [where.name])
    known = {each.name for each in stream_homes(where.platform)}
    with suppress(InvalidSpec):  # the folder of specs is optional for these commands
        specs = {file.stem for file in spec_files(specs_folder(streams))}
        if where.name in specs:
            typer.echo(f"note: {nowhere}", err=True)
            return
        known |= specs
    unknown = UnknownStream(where.name, known)
    unknown.add_note(nowhere)
    raise unknown


def data_folder(given: str | None, home: Path) -> DataPath | None:
    """Return the data root: as given, else from the environment, else None, which is the home. Raises InvalidSpec."""
    return data_root(given, home, "--data") if given else data_root(os.environ.get(DATA_VARIABLE), home)


def stream_home(home: Path | None, stream: str, data: str | None = None) -> StreamHome:
    """Return the home of a stream, with its data where its lineage began, else where the data root is.

    Raises InvalidSpec, and StoreUnreachable if nothing answers there.
    """
    platform = home_folder(home)
    where = locate_data(StreamHome.of(platform, stream, data_folder(data, platform)))
    require_reachable(where.data)
    return where


def stream_spec(streams: Path | None, name: str) -> StreamSpec:
    """Return the spec of a stream. Raises UnknownStream, DuplicateStream, InvalidSpec."""
    return find_stream(specs_folder(streams), name)


def spark_master(given: str | None) -> str | None:
    """Return the given master. Without it, return None under spark-submit, which decides, else the whole machine."""
    if given or "PYSPARK_GATEWAY_PORT" in os.environ:
        return given
    return os.environ.get("SESSIONIZER_MASTER", "local[*]")
