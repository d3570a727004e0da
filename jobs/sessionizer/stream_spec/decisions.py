"""The decisions of a spec: all fields that affect the results of a stream or its query."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel

from sessionizer.home.json_record import json_digest
from sessionizer.stream_spec.document.names import Sql
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import ChangesWithSource, Effect, Verdict
from sessionizer.stream_spec.sql_meaning import normal_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


Document: TypeAlias = "dict[str, Any]"
"""A whole spec in the words of its file, as JSON has them."""

Decisions: TypeAlias = "dict[str, Any]"
"""Field, as a spec names it (``rules.gap_timeout``), to its value, in a spec's words."""

KEY_GROUPS: Final = "key_groups"
MIGRATIONS: Final = "migrations"
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


@dataclass(frozen=True, slots=True)
class SpecField:
    """A field of a spec: the effect of a change, whether it is SQL, and whether a switch may change it."""

    effect: Effect
    is_sql: bool
    changes_with_source: bool

    @property
    def selects_events(self) -> bool:
        """Whether another value stands for other events: another source."""
        return self.changes_with_source and self.effect.verdict is Verdict.INCOMPATIBLE


@cache
def field_at(path: str) -> SpecField | None:
    """Return the field that a spec names ``path``, None if this release does not know it."""
    known = _all_fields()
    if path in known:
        return known[path]
    return next((field for name, field in known.items() if name.endswith(".") and path.startswith(name)), None)


@cache
def _all_fields() -> dict[str, SpecField]:
    """Return each field of the models by its path. A path that ends in a point stands for the names in a block."""
    found: dict[str, SpecField] = {}
    for path, field in _walk(StreamSpec, "", None, with_source=False):
        found.setdefault(path, field)
    return found


def _walk(
    model: type[BaseModel], prefix: str, around: Effect | None, *, with_source: bool
) -> Iterator[tuple[str, SpecField]]:
    """Yield the fields of ``model`` and below. ``around``: effect of the block, which its fields have without one."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        effect = next((each for each in field.metadata if isinstance(each, Effect)), around)
        changes_with_source = with_source or any(isinstance(each, ChangesWithSource) for each in field.metadata)
        if effect is not None:
            found = SpecField(effect, _is_sql(field.annotation) or Sql() in field.metadata, changes_with_source)
            yield path, found
            if get_origin(field.annotation) is dict:
                yield f"{path}.", found
        kinds = get_args(field.annotation) if get_origin(field.annotation) in {Union, UnionType} else [field.annotation]
        for kind in kinds:
            if isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, BaseModel):
                yield from _walk(kind, f"{path}.", effect, with_source=changes_with_source)


def _is_sql(annotation: Any) -> bool:  # noqa: ANN401  any type
    return annotation == Sql() or any(map(_is_sql, get_args(annotation)))


def document_of(spec: StreamSpec) -> Document:
    """Return the spec in the words of its file, defaults included. ``StreamSpec.model_validate`` reads it back."""
    return spec.model_dump(mode="json", by_alias=True)


def decisions_of(spec: StreamSpec) -> Decisions:
    """Return all decisions of ``spec``, defaults included."""
    return list_decisions(document_of(spec))


def list_decisions(document: Mapping[str, Any]) -> Decisions:
    """Return all decisions of a spec as JSON, also of one that this release would refuse. An empty list is none."""
    return {field: value for field, value in leaves(document) if value != [] and not _is_beside_the_stream(field)}


def _is_beside_the_stream(field: str) -> bool:
    found = field_at(field)
    return found is not None and found.effect.verdict is Verdict.NONE


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
    known = field_at(field) if isinstance(value, str) else None
    return normal_sql(str(value)) if known is not None and known.is_sql else value


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
