"""What a spec decides: all that has an effect on the results of a stream or on its query, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sessionizer.home.stamp import json_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.stream_spec.document.stream import StreamSpec


Document: TypeAlias = "dict[str, Any]"
"""A whole spec in the words of its file, as JSON has them."""

Decisions: TypeAlias = "dict[str, Any]"
"""Field, as a spec names it (``rules.gap_timeout``), to its value, in a spec's words."""

WITHOUT_EFFECT: Final = frozenset(
    {"description", "owner", "savepoints.every", "savepoints.native", "savepoints.keep", "savepoints.at_least"}
)
"""Fields that only people read, or that say what is done beside the stream."""


@dataclass(frozen=True, slots=True)
class Change:
    """A ``field`` whose value is another ``now`` than ``before``; None where a spec says nothing of it."""

    field: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.before!r} → {self.now!r}"


def document_of(spec: StreamSpec) -> Document:
    """The spec as its file could say it, defaults included; ``StreamSpec.model_validate`` takes it back."""
    return spec.model_dump(mode="json", by_alias=True)


def decisions_of(spec: StreamSpec) -> Decisions:
    """All that ``spec`` decides, defaults included."""
    return decided_by(document_of(spec))


def decided_by(document: Mapping[str, Any]) -> Decisions:
    """As ``decisions_of``, of a spec as JSON: also of one that this release would refuse."""
    return {field: value for field, value in leaves(document) if field not in WITHOUT_EFFECT}


def changes_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Change, ...]:
    """What differs between two sets of decisions, in the order of the newer; null is as not there."""
    fields = {**now, **before}
    return tuple(
        Change(field, before.get(field), now.get(field)) for field in fields if before.get(field) != now.get(field)
    )


def leaves(block: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value in nested objects, by its dotted path."""
    for name, value in block.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def spec_fingerprint(spec: StreamSpec) -> str:
    """Return the SHA-256 (64 hex digits) of what ``spec`` decides (``decisions_of``).

    The order of keys does not count, nor whether a default was written out, nor what is null.
    """
    decisive = {field: value for field, value in decisions_of(spec).items() if value is not None}
    return json_digest(decisive)
