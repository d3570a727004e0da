"""``sessionizer doctor`` and ``jars``: the check of an installation, and the jars on the class path of drivers."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  typer reads the annotations when it runs
from typing import Annotated, Final

import typer

from sessionizer.cli.places import AsJson, Home, Streams, home_folder, specs_folder
from sessionizer.cli.terminal import say
from sessionizer.doctor.finding import Level
from sessionizer.home.roots import ObjectStore  # noqa: TC001  typer reads the annotations when it runs
from sessionizer.launch.installation import JARS_VARIABLE, jar_folder
from sessionizer.launch.jars import fetch_jars, jar_names, list_file_names, other_versions

UNFIT: Final = 66
"""Exit code if there is a problem."""
_COLOURS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}
jars = typer.Typer(no_args_is_help=True, help="The jars on the class path of drivers.")


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
    from sessionizer.doctor.examination import examine_installation  # noqa: PLC0415  fast --help

    found = []
    for each in examine_installation(home_folder(home), specs_folder(streams), master):
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


@jars.callback()
def group() -> None:
    """The jars on the class path of drivers."""


@jars.command()
def fetch(
    folder: Annotated[
        Path | None,
        typer.Argument(help=f"Folder for them. Default: {JARS_VARIABLE}, else one in this Python environment."),
    ] = None,
    stores: Annotated[
        list[ObjectStore] | None,
        typer.Option("--with", help="Also those for an object store. May be repeated.", show_default=False),
    ] = None,
) -> None:
    """Fetch the jars that are missing, in exact versions. If none is, no registry is asked."""
    place = (folder or jar_folder()).expanduser().absolute()
    fetched = fetch_jars(place, stores or ())
    typer.echo(f"{len(jar_names(stores or ()))} jars are in {place}, {len(fetched)} of them fetched now")
    for name in other_versions(list_file_names(place)):
        say(f"warning: {name} is another version of a jar that drivers need. Remove {place / name}")
    if place != jar_folder():
        say(f"note: set {JARS_VARIABLE}={place} for every process of Airflow and for `sessionizer`")
