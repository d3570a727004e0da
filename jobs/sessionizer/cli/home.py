"""``sessionizer home``: the id of a platform home, and its place."""

from __future__ import annotations

from typing import Annotated

import typer

from sessionizer.cli.places import Home, home_folder
from sessionizer.errors import InvalidSpec
from sessionizer.home.home_identity import note_home_here, place_of, read_identity
from sessionizer.home.roots import HOME_VARIABLE, control_root, uri_of


def home(
    *,
    home: Home = None,
    moved_here: Annotated[
        bool, typer.Option("--moved-here", help="Note that the home was moved here. Its old place is out of use.")
    ] = False,
) -> None:
    """Show the id of the home, by which tables know their owner, and the place where it was made."""
    control = control_root(home_folder(home))
    found = read_identity(control)
    if found is None:
        raise InvalidSpec(HOME_VARIABLE, uri_of(control), "a home in which a stream has run")
    here = place_of(control)
    if moved_here:
        note_home_here(control)
        typer.echo(f"home {found.id} is now noted at {here}. Before: {found.place or 'not noted'}")
    elif found.place is None or found.place.is_same(here):
        typer.echo(f"home {found.id} is at {here}")
    else:
        typer.echo(f"home {found.id} was made at {found.place}. The one at {here} is a copy, or was moved")
