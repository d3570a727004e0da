"""Effects of the migrations that a spec declares and that its stream has not had yet, on open events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sessionizer.stream_spec.document.mapping import Mapping as SpecMapping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class MigrationEffects:
    """Columns and fields of an event that pending migrations set or drop.

    ``columns``: expression by column. ``ids``: the migrations, in order. ``ids_of``: those that set or drop a column of
    the payload, or a field such as ``mapping.key``.
    """

    ids: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    ids_of: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, pending: Sequence[Mapping[str, Any]]) -> Self:
        """Sum up the ``pending`` migrations, each as the spec declares it."""
        ids_of: dict[str, list[str]] = {}
        for each in pending:
            fields = (f"mapping.{name}" for name in SpecMapping.model_fields if each.get(name))
            for name in dict.fromkeys((*fields, *(each.get("columns") or ()), *(each.get("drop") or ()))):
                ids_of.setdefault(name, []).append(str(each["id"]))
        return cls(
            ids=tuple(str(each["id"]) for each in pending),
            columns={name: str(sql) for each in pending for name, sql in (each.get("columns") or {}).items()},
            dropped=frozenset(name for each in pending for name in each.get("drop") or ()),
            ids_of=ids_of,
        )

    def reason_for(self, name: str) -> str:
        """Say which migrations carry over the column or field ``name``, for a line of the plan."""
        return f"carried over by {', '.join(self.ids_of[name])}"

    def source_of(self, column: str) -> str | None:
        """Return the column that a migration renames to ``column``, None if it does not rename one."""
        expression = self.columns.get(column, "").strip().strip("`")
        return expression if expression.isidentifier() else None
