"""A migration of a stream: what happens to its open events once, when a new lineage takes them over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from sessionizer.stream_spec.document.names import COLUMN_NAMES_SCHEMA, ColumnName, Expression
from sessionizer.stream_spec.document.section import Section, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

SLUG_PATTERN: Final = "[a-z][a-z0-9_-]{0,62}"
ALLOWED_ID: Final = "a lower-case letter, then at most 62 lower-case letters, digits, hyphens or underscores"


def is_migration_id(text: str) -> bool:
    """Whether ``text`` may name a migration."""
    return re.fullmatch(SLUG_PATTERN, text) is not None


def check_id(text: str) -> str:
    """Return ``text`` if it may name a migration."""
    if not is_migration_id(text):
        raise refusal(text, ALLOWED_ID)
    return text


MigrationId = Annotated[str, AfterValidator(check_id), Field(json_schema_extra={"pattern": f"^{SLUG_PATTERN}$"})]


class Migration(Section):
    """SQL expressions over the columns of an open event.

    They are the payload columns, and ``key``, ``client``, ``event_time``, ``event_id``, ``closes``, ``timeout_ms``.
    All expressions of one migration see the event as it was before it.
    """

    id: MigrationId = Field(
        description="Name of the migration, unique in the stream. Never reuse one.",
        examples=["users-instead-of-browsers"],
    )
    columns: dict[ColumnName, Expression] = Field(
        default_factory=dict,
        description="Payload columns to set: name to SQL expression.",
        examples=[{"device": "coalesce(device, element_at(split(user_agent, ' '), 1))"}],
        json_schema_extra=COLUMN_NAMES_SCHEMA,
    )
    key: Expression | None = Field(
        default=None,
        description="The new key of each open event, cast to string. Sessions merge or split by it. It is never null.",
        examples=["coalesce(user_id, key)"],
    )
    client: Expression | None = Field(
        default=None, description="The new client of each open event, cast to string. Null means none."
    )
    drop: list[ColumnName] = Field(
        default_factory=list,
        description="Payload columns that open events lose.",
        examples=[["user_agent"]],
    )
    where: Expression | None = Field(
        default=None,
        description="Condition that an open event must meet to stay. The others leave, and the plan counts them.",
        examples=["client <> 'test'"],
    )
    timeout_ms: Expression | None = Field(
        default=None,
        description="The new gap timeout of each open event, in milliseconds, as bigint. It is positive, never null.",
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not any((self.columns, self.key, self.client, self.drop, self.where, self.timeout_ms)):
            allowed = "at least one of columns, key, client, drop, where, timeout_ms"
            raise refusal(None, allowed, "columns")
        return self

    @model_validator(mode="after")
    def _drops_no_column_that_it_sets(self) -> Self:
        for name in self.drop:
            if name in self.columns:
                raise refusal(name, "a column that the same migration does not set", "drop")
        return self


def check_unique_ids(migrations: Sequence[Migration]) -> None:
    """Raise the refusal of the first id that two migrations have."""
    seen: set[str] = set()
    for number, migration in enumerate(migrations):
        if migration.id in seen:
            raise refusal(migration.id, "an id that no other migration has", "migrations", str(number), "id")
        seen.add(migration.id)
