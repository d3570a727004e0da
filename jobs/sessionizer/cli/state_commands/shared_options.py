"""Options that all commands on a stream's state share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams  # noqa: TC001  read when it runs
from sessionizer.errors import InvalidSpec

_DIGEST: Final = re.compile(r"[0-9a-f]{16}")


def _check_digest(typed: str | None) -> str | None:
    """Refuse a malformed digest before anything is started. Raises InvalidSpec."""
    if typed is not None and not _DIGEST.fullmatch(typed):
        raise InvalidSpec("--approve", typed, "the 16 hex digits that the plan shows")
    return typed


By: TypeAlias = Annotated[str | None, typer.Option(help="User who approves. Default: you.")]


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Options that every command has. ``wait``: seconds. ``streams`` only if the command reads the stream's file."""

    stream: Stream
    approve: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Run the plan with this digest.", callback=_check_digest),
    ] = None
    wait: Annotated[float, typer.Option(help="Seconds to wait for the running batch to end.", min=1)] = 300.0
    by: By = None
    keep_plan: Annotated[
        str | None,
        typer.Option(metavar="REQUEST", help="Keep the plan under this name, so that it can be approved elsewhere."),
    ] = None
    as_json: AsJson = False
    streams: Streams = None
    home: Home = None
    data: Data = None
    master: Master = None
