"""``migrations.json`` of a lineage: the migrations that its open events have had, in order, with their digests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from sessionizer.errors import DamagedFile
from sessionizer.home.json_file import require_json, write_json
from sessionizer.home.stamp import stamped
from sessionizer.migrations.pending import AppliedMigration, applied_now, pending_migrations
from sessionizer.stream_spec.document.migration import Migration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.kept_spec import LineageSpec
    from sessionizer.stream_spec.document.stream import StreamSpec

_APPLIED: Final = "applied"


def read_applied(home: StreamHome, lineage: str) -> tuple[AppliedMigration, ...]:
    """Read the applied migrations, none in a lineage of an earlier release. Raises DamagedFile."""
    path = home.lineage(lineage).migrations
    value = require_json(path)
    if value is None:
        return ()
    try:
        return tuple(AppliedMigration.from_json(each) for each in value[_APPLIED])
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(path, f"its applied migrations cannot be read ({error})") from error


def record_of_applied(applied: Sequence[AppliedMigration]) -> JsonObject:
    """Return the content of ``migrations.json``."""
    return stamped({_APPLIED: [each.to_json() for each in applied]})


def begin_applied(home: StreamHome, lineage: str, spec: LineageSpec) -> None:
    """Record every migration of ``spec`` as applied, because a lineage without open events needs none of them.

    A lineage that takes open events over gets the record of those instead. Raises UnwritablePath.
    """
    found = applied_now(_declared(spec.document), spec.since)
    write_json(home.lineage(lineage).migrations, record_of_applied(found))


def waiting_migrations(home: StreamHome, lineage: str, spec: StreamSpec) -> tuple[Migration, ...]:
    """Return the migrations of ``spec`` that wait for a new lineage, in order. Raises MigrationRefused, DamagedFile."""
    return pending_migrations(home.name, spec.migrations, read_applied(home, lineage))


def _declared(document: dict[str, Any]) -> list[Migration]:
    """Return the migrations in a spec as JSON, none if this release refuses them."""
    try:
        return [Migration.model_validate(each) for each in document.get("migrations", [])]
    except ValidationError:
        return []
