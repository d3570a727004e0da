"""The commands by name, in the order in which users see them. A new command is its file and its word here."""

from __future__ import annotations

from typing import Final

from sessionizer.state.commands.command import Command
from sessionizer.state.commands.moves import Rescale, Switch
from sessionizer.state.commands.restores import Restore, Rollback
from sessionizer.state.commands.seeds import Seed
from sessionizer.state.commands.upgrades import Apply, Upgrade

COMMANDS: Final[dict[str, type[Command]]] = {
    each.name: each for each in (Restore, Rollback, Rescale, Switch, Apply, Upgrade, Seed)
}
