"""The commands by name, in the order in which users see them. A new command is its file and its word here."""

from __future__ import annotations

from typing import Final

from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.errors import DamagedFile
from sessionizer.home.roots import ControlPath, uri_of
from sessionizer.state.commands.command import Command
from sessionizer.state.commands.erasures import Erase
from sessionizer.state.commands.moves import Rescale, Switch
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.seeds import Seed
from sessionizer.state.commands.upgrades import Apply, Upgrade

COMMANDS: Final[dict[str, type[Command]]] = {
    each.name: each for each in (Restore, Rollback, Rescale, Switch, Apply, Upgrade, Seed, Erase)
}


def command_of(record: OperationRecord, file: ControlPath) -> Command:
    """Return the command that the ``record`` asks for. Raises DamagedFile if this release does not know it."""
    try:
        return COMMANDS[record.verb].from_json(record.request)
    except (KeyError, ValueError) as error:
        raise DamagedFile(uri_of(file), f"its request is unknown: {error}") from error
