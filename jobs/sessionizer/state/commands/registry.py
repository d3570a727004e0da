"""The commands by name, in the order in which users see them. A new command is its file and its word here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.state.commands.apply import Apply
from sessionizer.state.commands.rescale import Rescale
from sessionizer.state.commands.restore import Restore
from sessionizer.state.commands.rollback import Rollback
from sessionizer.state.commands.seed import Seed
from sessionizer.state.commands.switch import Switch
from sessionizer.state.commands.upgrade import Upgrade

if TYPE_CHECKING:
    from sessionizer.state.commands.command import Command

COMMANDS: Final[dict[str, type[Command]]] = {
    each.name: each for each in (Restore, Rollback, Rescale, Switch, Apply, Upgrade, Seed)
}
