"""Changes of a spec that a lineage cannot take: pure (docs/adr/0043, 0055)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors import ChangeRefused, InvalidSpec
from sessionizer.stream_spec.decisions import field_at
from sessionizer.stream_spec.effect import shown_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.stream_spec.decisions import Change


def require_continuable(stream: str, changes: Iterable[Change]) -> None:
    """Raise ChangeRefused for a change that no begun lineage can take, because its checkpoint has the old value."""
    for change in changes:
        command, known = command_for(stream, change), field_at(change.field)
        if command is not None and known is not None and known.effect.refused is not None:
            why = known.effect.refused.format(before=change.before)
            raise ChangeRefused(stream, change.field, shown_value(change.now), command, why)


def command_for(stream: str, change: Change) -> str | None:
    """Return the command that carries ``change`` out, as typed behind ``sessionizer``. None if a start is enough."""
    known = field_at(change.field)
    found = None if known is None else known.effect.command_for(change)
    return None if found is None else found.format(stream=stream)


def require_whole(changes: Iterable[Change], half_written: int | None) -> None:
    """Raise InvalidSpec for a change to the rows of batch ``half_written``. None: there is no such batch."""
    for change in () if half_written is None else changes:
        known = field_at(change.field)
        if known is None or known.effect.changes_begun_batch(change):
            until = f"until a driver with it has finished batch {half_written}"
            raise InvalidSpec(
                change.field, change.now, f"{change.before!r} {until}, because the tables have rows of it already"
            )
