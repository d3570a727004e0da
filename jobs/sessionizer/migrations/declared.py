"""Migrations that a spec declares: those that its lineage chain has not had, and their assignments to columns. Pure.

A migration is applied once per lineage chain, in the order of the spec. An applied one is frozen. The oldest ones may
be removed from the spec, because their effect is in the state. SQL is not parsed here. The adapter has Spark check each
expression, under the guard that mappings have.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sessionizer.errors import MigrationRefused
from sessionizer.home.json_record import JsonRecord, Moment, typed_digest
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
    for each in old:
        if migration_digest(each) != known[each.id].digest:
            cause = f"it is applied, and was edited since (then {known[each.id].digest}, now {migration_digest(each)})"
            raise MigrationRefused(stream, each.id, cause, "Restore its text, and declare a new migration")
    expected = [each.id for each in applied[len(applied) - len(old) :]]
    found = [each.id for each in old]
    wanted = next((wanted for is_there, wanted in zip(found, expected, strict=True) if is_there != wanted), None)
    if wanted is not None and wanted not in found:
        cause = f"it is applied, and was removed, but the older {found[0]!r} is still declared"
        raise MigrationRefused(stream, wanted, cause, "Put it back, or remove every older one with it")
    if wanted is not None:
        cause = "it is applied, and was moved"
        raise MigrationRefused(stream, wanted, cause, f"Restore the order {', '.join(expected)}")
    for each in declared[: len(old)]:
        if each.id not in known:
            cause = f"it stands before {found[-1]!r}, which is applied"
            raise MigrationRefused(stream, each.id, cause, "Move it to the end of the list")
    return tuple(declared[len(old) :])


@dataclass(frozen=True, slots=True)
class Assignment:
    """SQL ``sql`` for ``column``, at the ``field`` of the spec. ``sql`` is None for a column that keeps its value."""

    column: str
    sql: str | None
    field: str


@dataclass(frozen=True, slots=True)
class CompiledMigration:
    """The assignments of a migration to every column that an open event has after it.

    ``payload`` is in the order of the columns. ``set_columns`` and ``dropped`` change which columns an event came with.
    """

    id: str
    key: Assignment
    client: Assignment
    timeout_ms: Assignment
    where: Assignment
    payload: tuple[Assignment, ...]
    set_columns: tuple[str, ...]
    dropped: tuple[str, ...]


def compile_migrations(
    stream: str, migrations: Iterable[Migration], columns: Sequence[str]
) -> tuple[CompiledMigration, ...]:
    """Return the assignments of ``migrations``, one after the other, to an event with the payload ``columns``.

    Raises MigrationRefused if one drops a column that open events do not have by then.
    """
    found = []
    for migration in migrations:
        found.append(compile_migration(stream, migration, columns))
        columns = [each.column for each in found[-1].payload]
    return tuple(found)


def list_columns_after(columns: Iterable[str], migrations: Iterable[CompiledMigration]) -> set[str]:
    """Return the payload columns that an event has after ``migrations``, if it came with ``columns``."""
    found = set(columns)
    for each in migrations:
        found = found.difference(each.dropped).union(each.set_columns)
    return found


def compile_migration(stream: str, migration: Migration, columns: Sequence[str]) -> CompiledMigration:
    """Return the assignments of ``migration`` to an event with the payload ``columns``.

    Raises MigrationRefused if it drops a column that open events do not have.
    """
    for name in migration.drop:
        if name not in columns:
            cause = f"it drops {name!r}, and open events have only {', '.join(columns) or 'no columns'}"
            raise MigrationRefused(stream, migration.id, cause, f"Remove {name!r} from drop")
    place = f"migrations.{migration.id}"
    own = {
        name: Assignment(name, getattr(migration, name), f"{place}.{name}")
        for name in ("key", "client", "timeout_ms", "where")
    }
    payload = (
        Assignment(name, migration.columns.get(name), f"{place}.columns.{name}")
        for name in dict.fromkeys([*columns, *migration.columns])
        if name not in migration.drop
    )
    return CompiledMigration(
        id=migration.id,
        payload=tuple(payload),
        set_columns=tuple(migration.columns),
        dropped=tuple(migration.drop),
        **own,
    )


def describe_migration(migration: Migration) -> str:
    """Describe a migration in a line: what it sets, drops and leaves out."""
    own = [f"{name} = {sql}" for name in ("key", "client", "timeout_ms") if (sql := getattr(migration, name))]
    parts = [*own, *(f"{name} = {sql}" for name, sql in migration.columns.items())]
    if migration.drop:
        parts.append(f"drops {', '.join(migration.drop)}")
    if migration.where:
        parts.append(f"keeps events where {migration.where}")
    return "; ".join(parts)
