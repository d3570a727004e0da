"""Columns of a stream's tables, as far as Delta's log tells without Spark, and the types that they can take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sessionizer.stream_spec.column_types import PartKind, changed_parts, read_recorded_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.stream_spec.column_types import ColumnType


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Types of the payload's columns in the table ``sessions``, as Spark names them. Empty: nothing was seen.

    ``may_widen``: whether the table's owner turned on Delta's type widening.
    """

    types: Mapping[str, ColumnType] = field(default_factory=dict)
    may_widen: bool = False

    @classmethod
    def of(cls, schema: Mapping[str, Any], properties: Mapping[str, str]) -> Self:
        """Read the columns from a table's ``schema`` in Spark's JSON and its ``properties``."""
        events = next((each["type"] for each in schema.get("fields", ()) if each["name"] == "events"), None)
        fields = events["elementType"]["fields"] if isinstance(events, dict) else ()
        known = {each["name"]: read_recorded_type(each["type"]) for each in fields}
        types = {name: kind for name, kind in known.items() if kind is not None}
        return cls(types, properties.get("delta.enableTypeWidening") == "true")

    def refusal(self, column: str, kind: ColumnType) -> tuple[str, str] | None:
        """Return the reason and the remedy if the table cannot take ``column`` as type ``kind``, None if it can."""
        has = self.types.get(column)
        parts = [] if has is None else list(changed_parts(has, kind, column))
        settled = {PartKind.ADDED, PartKind.DROPPED, *([PartKind.WIDENED] if self.may_widen else [])}
        unfit = next((part for part in parts if part.kind not in settled), None)
        if unfit is None:
            return None
        remedy = "Give the column another name, or the tables another sink.path"
        if unfit.kind is PartKind.WIDENED:
            remedy += ", or turn on Delta's type widening"
        has_it = "it" if unfit.path == column else unfit.path
        return f"the table sessions has {has_it} as {unfit.before}", f"{remedy} (docs/applying.md)"
