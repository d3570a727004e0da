"""``migrations.json`` of a lineage: the migrations that its open events have had, in order, with their digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import LineageFile
from sessionizer.migrations.pending import AppliedMigration, pending_migrations, record_applied
from sessionizer.stream_spec.document.rules import Migration

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.kept_spec import LineageSpec
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class AppliedMigrations(JsonRecord):
    """The content of ``migrations.json``."""

    applied: tuple[AppliedMigration, ...]


MIGRATIONS_FILE: Final = LineageFile("migrations.json", AppliedMigrations)


def read_applied(home: StreamHome, lineage: str) -> tuple[AppliedMigration, ...]:
    """Read the applied migrations, none in a lineage of an earlier release. Raises DamagedFile."""
    kept = MIGRATIONS_FILE.of(home, lineage).require()
    return () if kept is None else kept.applied


def begin_applied(home: StreamHome, lineage: str, spec: LineageSpec) -> None:
    """Record every migration of ``spec`` as applied, because a lineage without open events needs none of them.

    A lineage that takes open events over gets the record of those instead. Raises UnwritablePath.
    """
    found = record_applied(_declared_migrations(spec.document), spec.since)
    MIGRATIONS_FILE.of(home, lineage).write(AppliedMigrations(found))


def waiting_migrations(home: StreamHome, lineage: str, spec: StreamSpec) -> tuple[Migration, ...]:
    """Return the migrations of ``spec`` that wait for a new lineage, in order. Raises MigrationRefused, DamagedFile."""
    return pending_migrations(home.name, spec.migrations, read_applied(home, lineage))


def _declared_migrations(document: dict[str, Any]) -> list[Migration]:
    """Return the migrations in a spec as JSON, none if this release refuses them."""
    try:
        return [Migration.model_validate(each) for each in document.get("migrations", [])]
    except ValidationError:
        return []
