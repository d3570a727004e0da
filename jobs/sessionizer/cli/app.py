"""The command ``sessionizer``: every verb of the platform for users and scripts."""

import os
import sys
from collections import UserDict
from collections.abc import Iterator
from importlib import import_module
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperGroup

from sessionizer import __version__
from sessionizer.cli.places import CommandLine
from sessionizer.cli.terminal import SILENCE, open_outputs, tell, translate_refusal
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.home.roots import CONTROL_VARIABLE

VALUES_OF_EVENTS: Final = frozenset({"--key", "--event"})
"""Options that take a value of the users' events, where an empty text and blanks are values like any other."""


SET_UP, START, LOOK, CHANGE = "Set up", "Start and stop", "Look", "Change the state"
PANELS: Final[dict[str, dict[str, str]]] = {
    SET_UP: {
        "init": "init", "spec": "spec", "diff": "spec", "doctor": "installation", "jars": "installation",
        "home": "installation",
    },
    START: {
        "run": "run", "stop": "run", "carry-out": "state_commands.operations", "abandon": "state_commands.operations",
    },
    LOOK: {
        "status": "status", "timeline": "status", "tables": "installation", "find": "inspect.find",
        "page": "installation", "report": "history", "history": "history", "bundle": "installation",
        "state": "inspect.state", "checkpoint": "inspect.words",
    },
    CHANGE: {
        **dict.fromkeys(("apply", "upgrade", "restore", "rollback", "promote", "rescale", "switch", "seed", "erase"),
                        "state_commands.changes"),
        "prove": "migrations", "savepoint": "savepoint", "migration": "migrations", "compact": "history",
    },
}  # fmt: skip
"""The commands by their group in ``--help``, each with its module below ``sessionizer.cli``."""


class LoadedCommands(UserDict[str, Any]):
    """The commands by name. A command's module is imported when it is asked for, because all take most of a second."""

    places: ClassVar = {name: (panel, each[name]) for panel, each in PANELS.items() for name in each}

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, without an import."""
        return iter(self.places)

    def __len__(self) -> int:
        """Return the number of commands."""
        return len(self.places)

    def __contains__(self, name: object) -> bool:
        """Whether there is a command of that name."""
        return name in self.places

    def __missing__(self, name: str) -> Any:  # noqa: ANN401  a class that typer hides
        """Import the command. Raises KeyError."""
        panel, module = self.places[name]
        command, alone = getattr(import_module(f"sessionizer.cli.{module}"), name.replace("-", "_")), typer.Typer()
        if isinstance(command, typer.Typer):
            alone.add_typer(command, name=name, rich_help_panel=panel)
        else:
            alone.command(rich_help_panel=panel)(command)
        self.data[name] = typer.main.get_group(alone).commands[name]
        return self.data[name]


class Commands(TyperGroup):
    """Root of the commands. It refuses an empty text, which a path would take for the working directory."""

    def __init__(self, **given: Any) -> None:
        """Make the root, with all commands."""
        super().__init__(**given)
        self.commands = LoadedCommands()

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


def print_release(wanted: bool) -> None:  # noqa: FBT001  the interface of an option's callback
    """Print the release, and end the command, if that is ``wanted``."""
    if wanted:
        typer.echo(f"sessionizer {__version__}")
        raise typer.Exit


@app.callback()
def everywhere(
    context: typer.Context,
    *,
    control: Annotated[
        str | None,
        typer.Option(
            help=f"The control root (a path or URI, such as s3://…). Default: {CONTROL_VARIABLE}, else the home."
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001  its callback has acted
        bool, typer.Option("--version", help="Print the release.", is_eager=True, callback=print_release)
    ] = False,
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
    except (SessionizerError, OSError) as error:
        ours = translate_refusal(error) if isinstance(error, OSError) else error
        tell(ours)
        sys.exit(ours.exit_code)
