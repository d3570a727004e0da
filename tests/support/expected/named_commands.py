"""Commands that a sentence names for the user to paste, and the faults of one."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import typer

from sessionizer.cli.app import app

TREE: Final = typer.main.get_command(app)


def commands_in(remedy: str) -> list[list[str]]:
    return [shlex.split(found)[1:] for found in re.findall(r"`(sessionizer [^`]+)`", remedy)]


def faults(words: list[str]) -> Iterator[str]:
    """The words of a command line that name no command and no option of it, and the arguments that it lacks."""
    command: Any = TREE
    rest = list(words[2:] if words[:1] == ["--control"] else words)
    while hasattr(command, "commands") and rest:
        found = command.commands.get(rest[0])
        if found is None:
            yield rest[0]
            return
        command, rest = found, rest[1:]
    options = {name: each for each in command.params for name in each.opts if each.param_type_name == "option"}
    needed = [each.name for each in command.params if each.param_type_name == "argument" and each.required]
    given, left = 0, iter(rest)
    for word in left:
        name, is_joined, _ = word.partition("=")
        if not word.startswith("-"):
            given += 1
        elif name not in options:
            yield word
        elif not (is_joined or options[name].is_flag):
            next(left, None)
    yield from needed[given:]
