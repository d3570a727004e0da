"""``sessionizer jars``: the jars on the class path of drivers."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  typer reads the annotations when it runs
from typing import Annotated

import typer

from sessionizer.cli.terminal import say
from sessionizer.launch.installation import JARS_VARIABLE, jar_folder
from sessionizer.launch.jars import fetch_jars, files_in, jar_names, other_versions

jars = typer.Typer(no_args_is_help=True, help="The jars on the class path of drivers.")


@jars.callback()
def group() -> None:
    """The jars on the class path of drivers."""


@jars.command()
def fetch(
    folder: Annotated[
        Path | None,
        typer.Argument(help=f"Where to put them [env {JARS_VARIABLE}, default in this Python environment]."),
    ] = None,
) -> None:
    """Fetch the jars that are missing, in exact versions. If none is, no registry is asked."""
    place = (folder or jar_folder()).expanduser().absolute()
    fetched = fetch_jars(place)
    typer.echo(f"{len(jar_names())} jars are in {place}, {len(fetched)} of them fetched now")
    for name in other_versions(files_in(place)):
        say(f"warning: {name} is another version of a jar that drivers need. Remove {place / name}")
    if place != jar_folder():
        say(f"note: set {JARS_VARIABLE}={place} for every process of Airflow and for `sessionizer`")
