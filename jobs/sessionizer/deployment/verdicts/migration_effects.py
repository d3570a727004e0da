"""Effects of the migrations that a spec declares and that its stream has not had yet, on open events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FIELDS = ("key", "client", "timeout_ms")


@dataclass(frozen=True, slots=True)
class MigrationEffects:
    """Columns that pending migrations compute or drop, and the ``fields`` of an event that they set.

    ``columns``: expression by column. ``ids``: the migrations, in order.
    """

    ids: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pending: Sequence[Mapping[str, Any]]) -> Self:
        """Sum up the ``pending`` migrations, each as the spec declares it."""
        return cls(
            ids=tuple(str(each["id"]) for each in pending),
            columns={name: str(sql) for each in pending for name, sql in (each.get("columns") or {}).items()},
            dropped=frozenset(name for each in pending for name in each.get("drop") or ()),
            fields=frozenset(name for each in pending for name in _FIELDS if each.get(name)),
        )

    @property
    def reason(self) -> str:
        """Name the migrations for a sentence of the plan."""
        return f"carried over by {', '.join(self.ids)}"

    def source_of(self, column: str) -> str | None:
        """Return the column that a migration renames to ``column``, None if it does not rename one."""
        expression = self.columns.get(column, "").strip().strip("`")
        return expression if expression.isidentifier() else None
