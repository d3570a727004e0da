"""Operations that the form of ``sessionizer.operate`` offers: a savepoint, and the commands on a stream's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.state.commands.registry import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.state.commands.command import Option

SAVEPOINT: Final = "savepoint"


def purposes() -> dict[str, str]:
    """Return the operations in order, each with its purpose in one line."""
    return {SAVEPOINT: "save what is open now", **{name: each.purpose for name, each in COMMANDS.items()}}


def form_fields() -> dict[str, tuple[Option, tuple[str, ...]]]:
    """Return the fields of the form in order, each with the commands that have it. Shared fields come last."""
    found: dict[str, tuple[Option, tuple[str, ...]]] = {}
    for command, name, option in _declared():
        _, others = found.get(name, (option, ()))
        found[name] = (option, (*others, command))
    return dict(sorted(found.items(), key=lambda each: len(each[1][1]) > 1))


def _declared() -> Iterator[tuple[str, str, Option]]:
    """Yield the command, the name and the option of each field."""
    for command, declaration in COMMANDS.items():
        for name, option in declaration.options().items():
            if option.title is not None:
                yield command, name, option
