"""Commands in messages, as the user can paste them: for the stream and the places that the user typed.

A user who typed ``--home /other`` would otherwise paste a remedy that acts on the default home.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


HOME: Final = "--home"
PLACES: Final = ("--streams", HOME, "--data")
"""Options that say where things are. Each is repeated in every command that has it."""
CONTROL: Final = "--control"
"""The option before the command."""
_COMMAND: Final = re.compile(r"(?<=`)sessionizer ([^`]+)(?=`)|(?<=: )sessionizer ([^`]+)$")
"""A command between backticks, or at the end of a line, as in `to resume: sessionizer …`."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command line: its ``stream``, and its ``places`` by option. ``root`` has all commands."""

    root: Any
    stream: str | None
    places: Mapping[str, str]

    @classmethod
    def parse(cls, root: Any, words: Sequence[str]) -> CommandLine:  # noqa: ANN401  a class that typer hides
        """Parse the words after the program's name. A line that is no command has neither stream nor places."""
        command, options, arguments = _parse(root, words)
        names = [each.name for each in command.params if each.param_type_name == "argument"]
        stream = next((value for name, value in zip(names, arguments, strict=False) if name == "stream"), None)
        return cls(root, stream, {name: options[name] for name in (CONTROL, *PLACES) if name in options})

    def complete(self, text: str) -> str:
        """Return the ``text``, each command in it with the places that it takes and does not name."""
        return _COMMAND.sub(lambda found: self._complete(found[1] or found[2]), text) if self.places else text

    def _complete(self, said: str) -> str:
        try:
            command, named, _ = _parse(self.root, shlex.split(said))
        except ValueError:  # an open quote: a part of a command
            return f"sessionizer {said}"
        if HOME in named:  # another home has places of its own
            return f"sessionizer {said}"
        taken = {CONTROL, *(name for each in command.params for name in each.opts)} - named.keys()
        missing = {name: f"{name} {shlex.quote(value)}" for name, value in self.places.items() if name in taken}
        control = missing.pop(CONTROL, None)
        return " ".join(filter(None, ["sessionizer", control, said, *missing.values()]))


def _parse(root: Any, words: Sequence[str]) -> tuple[Any, dict[str, str], list[str]]:  # noqa: ANN401
    """Return the command that the words name, the values of its options as typed, and its arguments."""
    command: Any = root
    options: dict[str, str] = {}
    arguments: list[str] = []
    left = iter(words)
    for word in left:
        name, is_joined, value = word.partition("=")
        known = {opt: each for each in command.params for opt in each.opts if each.param_type_name == "option"}
        if word.startswith("--") and name in known:
            options[name] = value if is_joined else "" if known[name].is_flag else next(left, "")
        elif word in getattr(command, "commands", {}):
            command = command.commands[word]
        else:
            arguments.append(word)
    return command, options, arguments
