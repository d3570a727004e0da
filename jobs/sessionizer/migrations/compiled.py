"""A migration as assignments to the columns of an open event: pure.

SQL is not parsed here. The adapter has Spark check each expression, under the guard that mappings have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.errors import MigrationRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sessionizer.stream_spec.document.rules import Migration


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
    own = {name: _assignment(migration, name) for name in ("key", "client", "timeout_ms", "where")}
    return CompiledMigration(
        id=migration.id,
        payload=tuple(_payload(migration, columns)),
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


def _assignment(migration: Migration, name: str) -> Assignment:
    return Assignment(name, getattr(migration, name), f"migrations.{migration.id}.{name}")


def _payload(migration: Migration, columns: Sequence[str]) -> Iterator[Assignment]:
    for name in dict.fromkeys([*columns, *migration.columns]):
        if name not in migration.drop:
            yield Assignment(name, migration.columns.get(name), f"migrations.{migration.id}.columns.{name}")
