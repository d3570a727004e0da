"""``sessionizer doctor``: the check of an installation."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from sessionizer.cli.places import AsJson, Home, Streams, home_folder, streams_folder
from sessionizer.doctor.finding import Level

UNFIT: Final = 66
"""Exit code if there is a problem."""
_COLOURS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}


def doctor(
    *,
    master: Annotated[str, typer.Option(help="Spark master that drivers will use.")] = "local[*]",
    streams: Streams = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Check that streams can run here: Java, Python, jars, home, specs, Airflow, Spark. Each problem has its remedy.

    Ends with exit code 66 if there is a problem. A warning may be meant.
    """
    from sessionizer.doctor.examination import examine  # noqa: PLC0415  fast --help

    found = []
    for each in examine(home_folder(home), streams_folder(streams), master):
        found.append(each)
        if not as_json:
            level = typer.style(f"{each.level:<8}", fg=_COLOURS[each.level])
            typer.echo(f"{level} {each.name}: {each.found}")
            if each.remedy:
                typer.echo(f"{'':<8} → {each.remedy}")
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in found], indent=1))
    if any(each.level is Level.PROBLEM for each in found):
        raise typer.Exit(UNFIT)
