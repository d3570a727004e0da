"""Columns of a stream's tables, as far as Delta's log tells without Spark, and the types that they can take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sessionizer.deployment.verdicts.column_types import has_every_value, name_recorded_type

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Types of the payload's columns in the table ``sessions``, as Spark names them. Empty: nothing was seen.

    ``may_widen``: whether the table's owner turned on Delta's type widening.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    may_widen: bool = False

    @classmethod
    def of(cls, schema: Mapping[str, Any], properties: Mapping[str, str]) -> Self:
        """Read the columns from a table's ``schema`` in Spark's JSON and its ``properties``."""
        events = next((each["type"] for each in schema.get("fields", ()) if each["name"] == "events"), None)
        fields = events["elementType"]["fields"] if isinstance(events, dict) else ()
        known = {each["name"]: name_recorded_type(each["type"]) for each in fields}
        types = {name: kind for name, kind in known.items() if kind is not None}
        return cls(types, properties.get("delta.enableTypeWidening") == "true")

    def refusal(self, column: str, kind: str) -> tuple[str, str] | None:
        """Return the reason and the remedy if the table cannot take ``column`` as type ``kind``, None if it can."""
        has = self.types.get(column)
        widens = has is not None and has_every_value(kind, has)
        if has in {None, kind} or (widens and self.may_widen):
            return None
        remedy = "Give the column another name, or the tables another sink.path"
        if widens:
            remedy += ", or turn on Delta's type widening"
        return f"the table sessions has it as {has}", f"{remedy} (docs/applying.md)"
