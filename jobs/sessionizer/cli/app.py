"""The command ``sessionizer``: every verb of the platform that a person or a script may type."""

from __future__ import annotations

import sys

import typer

from sessionizer.cli.run import run
from sessionizer.errors import SessionizerError
from sessionizer.feed.commands import feed

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
app.command()(run)
app.command()(feed)


def main() -> None:
    """Run the command line; one of our errors ends it with one message and that error's exit code."""
    try:
        app()
    except SessionizerError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
