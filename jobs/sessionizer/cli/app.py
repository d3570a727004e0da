"""The command ``sessionizer``: every verb of the platform for users and scripts."""

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperGroup

from sessionizer import __version__
from sessionizer.cli.history import compact, history, report
from sessionizer.cli.init import init
from sessionizer.cli.inspect.find import find
from sessionizer.cli.inspect.state import state
from sessionizer.cli.inspect.words import checkpoint
from sessionizer.cli.installation import bundle, doctor, home, jars, page, tables
from sessionizer.cli.migrations import migration, prove
from sessionizer.cli.places import CommandLine
from sessionizer.cli.run import run, stop
from sessionizer.cli.savepoint import savepoint
from sessionizer.cli.spec import diff, spec
from sessionizer.cli.state_commands.changes import (
    apply,
    erase,
    promote,
    rescale,
    restore,
    rollback,
    seed,
    switch,
    upgrade,
)
from sessionizer.cli.state_commands.operations import abandon, carry_out
from sessionizer.cli.status import status, timeline
from sessionizer.cli.terminal import SILENCE, open_outputs, tell, translate_refusal
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.home.roots import CONTROL_VARIABLE

Control: TypeAlias = Annotated[
    str | None,
    typer.Option(help=f"The control root (a path or URI, such as s3://…). Default: {CONTROL_VARIABLE}, else the home."),
]
VALUES_OF_EVENTS: Final = frozenset({"--key", "--event"})
"""Options that take a value of the users' events, where an empty text and blanks are values like any other."""


class Commands(TyperGroup):
    """Root of the commands. It refuses an empty text, which a path would take for the working directory."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401  a class that typer hides
        """Parse the arguments. Raises InvalidSpec for one that is empty or blank."""
        for before, text in zip(["", *args], args, strict=False):
            name, _, value = text.partition("=") if text.startswith("--") and "=" in text else (before, "", text)
            if not value.strip() and name not in VALUES_OF_EVENTS:
                field = name if name.startswith("-") else "ARGUMENT"
                raise InvalidSpec(field, value, f"Give a text, or omit {field}")
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Every command of the platform, for users and scripts.",
)
CommandLine.app = app
SET_UP, START, LOOK, CHANGE = "Set up", "Start and stop", "Look", "Change the state"
PANELS: Final[dict[str, tuple[Callable[..., None] | tuple[str, typer.Typer], ...]]] = {
    SET_UP: (init, ("spec", spec), diff, doctor, ("jars", jars), home),
    START: (run, stop, carry_out, abandon),
    LOOK: (
        status, timeline, tables, find, page, report, history, bundle, ("state", state), ("checkpoint", checkpoint),
    ),
    CHANGE: (
        apply, upgrade, restore, rollback, promote, rescale, switch, seed, erase, prove, ("savepoint", savepoint),
        ("migration", migration), compact,
    ),
}  # fmt: skip
"""The commands by their group in ``--help``."""
for panel, commands in PANELS.items():
    for command in commands:
        if isinstance(command, tuple):
            app.add_typer(command[1], name=command[0], rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(command)


def print_release(wanted: bool) -> None:  # noqa: FBT001  the interface of an option's callback
    """Print the release, and end the command, if that is ``wanted``."""
    if wanted:
        typer.echo(f"sessionizer {__version__}")
        raise typer.Exit


Version: TypeAlias = Annotated[
    bool, typer.Option("--version", help="Print the release.", is_eager=True, callback=print_release)
]


@app.callback()
def everywhere(
    context: typer.Context,
    *,
    control: Control = None,
    version: Version = False,  # noqa: ARG001  its callback has acted
) -> None:
    """Every verb of the platform for users and scripts."""
    context.call_on_close(SILENCE.stop)
    if control:
        # A process has one control root: its children and all its streams must use the same.
        os.environ[CONTROL_VARIABLE] = control


def run_app() -> None:
    """Run the command line. An error of ours ends it with a message, a remedy and the error's exit code.

    So does a refusal by the operating system, of a file or of the output.
    """
    open_outputs()
    try:
        app(prog_name="sessionizer")
    except SessionizerError as error:
        tell(error)
        sys.exit(error.exit_code)
    except OSError as error:
        refused = translate_refusal(error)
        tell(refused)
        sys.exit(refused.exit_code)
