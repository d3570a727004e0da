"""Changes of a spec that a lineage cannot take: pure (docs/adr/0043, 0055)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.counts import count_text
from sessionizer.errors import ChangeRefused, InvalidSpec
from sessionizer.stream_spec.document.reader_options import only_plans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sessionizer.stream_spec.decisions import Change

KEY_GROUPS: Final = "key_groups"
MIGRATIONS: Final = "migrations"
WHICH_SOURCE: Final = ("source.format", "source.path", "source.topic")
"""Fields that select the events. Brokers may move, and the format of rows may change."""
OF_OPEN_EVENTS: Final = ("mapping.key", "mapping.client", "mapping.event_time", "mapping.event_id")
"""Fields whose value before the change stays in open events."""
_COLUMNS: Final = "mapping.payload."

SETTLED_FIELDS: Final = frozenset({"trigger_interval", "source.bootstrap_servers", "source.starting_offsets"})


def require_continuable(stream: str, changes: Iterable[Change]) -> None:
    """Raise ChangeRefused for a change that no begun lineage can take, because its checkpoint has the old value."""
    changed = {change.field: change for change in changes}
    groups = changed.get(KEY_GROUPS)
    if groups is not None:
        why = f", because the state has {count_text(groups.before, 'key group')}"
        raise ChangeRefused(stream, KEY_GROUPS, groups.now, f"rescale {stream}", why)
    if MIGRATIONS in changed and not only_forgets(changed[MIGRATIONS]):
        named = [each["id"] for each in changed[MIGRATIONS].now or []]
        why = " to migrate the open events into a new lineage"
        raise ChangeRefused(stream, MIGRATIONS, named, f"upgrade {stream}", why)
    for field in WHICH_SOURCE:
        if field in changed:
            found = changed[field]
            why = f" to continue elsewhere than at {found.before!r}"
            raise ChangeRefused(stream, field, found.now, f"switch {stream} --start-at WHERE", why)


def verbs_needed(changes: Iterable[Change]) -> dict[str, str]:
    """Return the command for each field that a start may refuse. It is empty if a start is enough."""
    verbs = {KEY_GROUPS: "rescale", **dict.fromkeys(WHICH_SOURCE, "switch"), **dict.fromkeys(OF_OPEN_EVENTS, "upgrade")}
    found = {change.field: verbs[change.field] for change in changes if change.field in verbs}
    found |= {change.field: "upgrade" for change in changes if change.field.startswith(_COLUMNS) and change.now}
    migrates = any(change.field == MIGRATIONS and not only_forgets(change) for change in changes)
    return {**found, **({MIGRATIONS: "upgrade"} if migrates else {})}


def only_forgets(change: Change) -> bool:
    """Whether a change of the migrations removes only the oldest ones, whose effect is in the state."""
    before, now = change.before or [], change.now or []
    return bool(now == before[len(before) - len(now) :])


def require_whole(changes: Iterable[Change], half_written: int | None) -> None:
    """Raise InvalidSpec for a change to the rows of batch ``half_written``. None: there is no such batch."""
    change = None if half_written is None else next(filter(_concerns_a_batch, changes), None)
    if change is not None:
        until = f"until a driver with it has finished batch {half_written}, because the tables have rows of it already"
        raise InvalidSpec(change.field, change.now, f"{change.before!r} {until}")


def _concerns_a_batch(change: Change) -> bool:
    """Whether the change would give other rows to a batch that was begun."""
    block, _, option = change.field.removeprefix("source.").partition(".")
    if block == "options":
        return not only_plans(option)
    return block != "options_from_environment" and change.field not in SETTLED_FIELDS
