"""Comparison of the migrations in a spec with those that its lineage chain has had: pure.

A migration is applied once per lineage chain, in the order of the spec. An applied one is frozen. The oldest ones may
be removed from the spec, because their effect is in the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.errors import MigrationRefused
from sessionizer.home.json_record import JsonRecord, Moment, typed_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.stream_spec.document.rules import Migration


@dataclass(frozen=True, slots=True)
class AppliedMigration(JsonRecord):
    """A migration that a lineage chain has had: its ``id``, the ``digest`` of its text, and when (epoch ms)."""

    id: str
    digest: str
    at: Moment = 0


def migration_digest(migration: Migration) -> str:
    """Return the digest (16 hex digits) of what a migration does. A default that is written out does not count."""
    return typed_digest(migration.model_dump(mode="json", exclude_defaults=True))


def record_applied(migrations: Sequence[Migration], at: int) -> tuple[AppliedMigration, ...]:
    """Return the records of ``migrations`` that are applied ``at`` (epoch ms)."""
    return tuple(AppliedMigration(each.id, migration_digest(each), at) for each in migrations)


def pending_migrations(
    stream: str, declared: Sequence[Migration], applied: Sequence[AppliedMigration]
) -> tuple[Migration, ...]:
    """Return the declared migrations that are not applied yet, in order.

    Raises MigrationRefused for an applied one that was edited, moved, or removed from between others, and for a new one
    before an applied one.
    """
    known = {each.id: each for each in applied}
    old = [each for each in declared if each.id in known]
    _require_frozen(stream, old, known)
    expected = [each.id for each in applied[len(applied) - len(old) :]]
    found = [each.id for each in old]
    if found != expected:
        _refuse_order(stream, found, expected)
    first = [each.id for each in declared[: len(old)]]
    for name in first:
        if name not in known:
            cause = f"it stands before {found[-1]!r}, which is applied"
            raise MigrationRefused(stream, name, cause, "Move it to the end of the list")
    return tuple(declared[len(old) :])


def _require_frozen(stream: str, old: Sequence[Migration], known: dict[str, AppliedMigration]) -> None:
    for each in old:
        if migration_digest(each) != known[each.id].digest:
            cause = f"it is applied, and was edited since (then {known[each.id].digest}, now {migration_digest(each)})"
            raise MigrationRefused(stream, each.id, cause, "Restore its text, and declare a new migration")


def _refuse_order(stream: str, found: Sequence[str], expected: Sequence[str]) -> None:
    """Raise MigrationRefused for the first applied migration that is missing or moved."""
    for is_there, wanted in zip(found, expected, strict=True):
        if is_there != wanted:
            break
    if wanted not in found:
        cause = f"it is applied, and was removed, but the older {found[0]!r} is still declared"
        raise MigrationRefused(stream, wanted, cause, "Put it back, or remove every older one with it")
    cause = "it is applied, and was moved"
    raise MigrationRefused(stream, wanted, cause, f"Restore the order {', '.join(expected)}")
