"""The decisions of a spec: all fields that affect the results of a stream or its query."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sessionizer.home.json_record import json_digest
from sessionizer.stream_spec.sql_meaning import normal_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.stream_spec.document.stream import StreamSpec


Document: TypeAlias = "dict[str, Any]"
"""A whole spec in the words of its file, as JSON has them."""

Decisions: TypeAlias = "dict[str, Any]"
"""Field, as a spec names it (``rules.gap_timeout``), to its value, in a spec's words."""

WITHOUT_EFFECT: Final = frozenset(
    {
        "description", "owner", "savepoints.every", "savepoints.native", "savepoints.keep", "savepoints.at_least",
        "compaction.every", "compaction.keep", "upgrades.window", "upgrades.policy",
        "upgrades.wave", "upgrades.at_restart", "upgrades.prove", "upgrades.canary", "upgrades.roll_back_if_failed",
        "source.schema.file",
    }
)  # fmt: skip
"""Fields for display, and fields that configure work beside the stream."""

_DIGITS: Final = 16
SCHEMA_CONTENT: Final = "source.schema.content"
"""Field with the content of a file, compared and shown by its digest."""


@dataclass(frozen=True, slots=True)
class Change:
    """A ``field`` with its value ``before`` and ``now``. None if a spec does not set it."""

    field: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.before!r} → {self.now!r}"


def document_of(spec: StreamSpec) -> Document:
    """Return the spec in the words of its file, defaults included. ``StreamSpec.model_validate`` reads it back."""
    return spec.model_dump(mode="json", by_alias=True)


def decisions_of(spec: StreamSpec) -> Decisions:
    """Return all decisions of ``spec``, defaults included."""
    return list_decisions(document_of(spec))


def list_decisions(document: Mapping[str, Any]) -> Decisions:
    """Return all decisions of a spec as JSON, also of one that this release would refuse. An empty list is none."""
    return {field: value for field, value in leaves(document) if field not in WITHOUT_EFFECT and value != []}


def changes_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the differences between two sets of decisions, in the order of the newer.

    Null counts as absent, and SQL that surely means the same is the same.
    """
    fields = {**now, **before}
    return tuple(
        Change(field, before.get(field), now.get(field))
        for field in fields
        if _compared(field, before.get(field)) != _compared(field, now.get(field))
    )


def _compared(field: str, value: object) -> object:
    is_sql = isinstance(value, str) and field.startswith(("mapping.", "measures."))
    return normal_sql(str(value)) if is_sql else value


def leaves(block: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value in nested objects, with its dotted path. Of a schema's content the digest is yielded."""
    for name, value in block.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        elif f"{prefix}{name}" == SCHEMA_CONTENT:
            yield SCHEMA_CONTENT, f"sha256 {hashlib.sha256(str(value).encode()).hexdigest()[:_DIGITS]}"
        else:
            yield f"{prefix}{name}", value


def spec_fingerprint(spec: StreamSpec) -> str:
    """Return the SHA-256 (64 hex digits) of the decisions of ``spec`` (``decisions_of``).

    The order of keys does not count, nor whether a default was written out, nor a null.
    """
    decisive = {field: value for field, value in decisions_of(spec).items() if value is not None}
    return json_digest(decisive)
