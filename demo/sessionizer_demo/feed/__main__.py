"""``python -m sessionizer_demo.feed``, which ``make`` names ``sessionizer-feed``."""

from __future__ import annotations

import sys

import typer

from sessionizer.errors import SessionizerError
from sessionizer_demo.feed.commands import feed


def main() -> int:
    """Play a feed and return the exit code. One of our errors ends it with one message."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(feed)
    try:
        app(prog_name="sessionizer-feed")
    except SessionizerError as error:
        typer.echo(f"error: {error}\n  → `sessionizer-feed --help` lists what may be given", err=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
