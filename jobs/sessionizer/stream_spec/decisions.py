"""The decisions of a spec: all fields that affect the results of a stream or its query."""

import hashlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from sessionizer.errors import InvalidSpec, SpecProblems
from sessionizer.home.json_record import json_digest
from sessionizer.stream_spec.document.names import EVENT_FIELDS, Sql
from sessionizer.stream_spec.document.source import IN_BYTES, Source
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import ChangesWithSource, FieldEffect, Verdict
from sessionizer.stream_spec.sql_guard import Scope, normal_sql, refuse_sql
from sessionizer.stream_spec.sql_words import NAMES, WordKind, words_of

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
    """A field of a spec: the effect of a change, whether it is SQL, whether a switch may change it, and its default."""

    effect: FieldEffect
    is_sql: bool
    changes_with_source: bool
    default: Any = None

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
    model: type[BaseModel], prefix: str, around: FieldEffect | None, *, with_source: bool
) -> Iterator[tuple[str, SpecField]]:
    """Yield the fields of ``model`` and below. ``around``: effect of the block, which its fields have without one."""
    defaults = model.model_construct().model_dump(mode="json", by_alias=True, warnings=False)  # in a spec's words
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        effect = next((each for each in field.metadata if isinstance(each, FieldEffect)), around)
        changes_with_source = with_source or any(isinstance(each, ChangesWithSource) for each in field.metadata)
        if effect is not None:
            is_sql = _is_sql(field.annotation) or Sql() in field.metadata
            default = None if field.default is PydanticUndefined else defaults[field.alias or name]
            found = SpecField(effect, is_sql, changes_with_source, default)
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
    decided = {field: value for field, value in leaves(document) if value != []}
    beside = {field for field in decided if (known := field_at(field)) and known.effect.verdict is Verdict.NONE}
    return {field: value for field, value in decided.items() if field not in beside}


def changes_between(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the differences between two sets of decisions, in the order of the newer.

    Null counts as absent, and SQL that surely means the same is the same. Of two releases the older one may not know a
    field of a block that both have: its default counts as absent, too.
    """
    if before == now:
        return ()
    fields = {**now, **before}
    blocks = [{field.rpartition(".")[0] for field in side} for side in (before, now)]
    return tuple(
        Change(field, before.get(field), now.get(field))
        for field in fields
        if _compared(field, before, blocks[0]) != _compared(field, now, blocks[1])
    )


def _compared(field: str, side: Mapping[str, Any], blocks: AbstractSet[str]) -> object:
    """Return the value of a ``field`` on one side, which has these ``blocks``, in the form that is compared."""
    known = field_at(field)
    if known is None:
        return side.get(field)
    if field not in side:
        return known.default if field.rpartition(".")[0] in blocks else None
    value = side[field]
    return normal_sql(value) if known.is_sql and isinstance(value, str) else value


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
    return json_digest({field: value for field, value in decisions_of(spec).items() if value is not None})


_OWN: Final = {"_raw": "string", "_position": "string", "_fault": "string"}
_KAFKA: Final = {"kafka": "struct<timestamp:timestamp>"}


def check_sql(spec: StreamSpec) -> None:
    """Raise InvalidSpec for the first SQL of ``spec`` that may not be resolved, with the others beside it.

    Syntax, types and the columns of a Delta table are left to Spark, and so are the columns of open events.
    """
    misfits = SpecProblems()
    for field, sql, scope in _expressions(spec):
        with misfits.noted():
            if (allowed := refuse_sql(sql, scope)) is not None:
                raise InvalidSpec(field, sql, allowed)
    misfits.raise_them()


def _expressions(spec: StreamSpec) -> Iterator[tuple[str, str, Scope]]:
    """Yield each expression with its field and what it may name."""
    of_row = Scope(source_columns(spec.source))
    mapping = spec.mapping.model_dump(exclude={"payload"}, exclude_none=True)
    yield from ((f"mapping.{name}", sql, of_row) for name, sql in mapping.items())
    yield from ((f"mapping.payload.{name}", sql, of_row) for name, sql in spec.mapping.payload.items())
    of_session = Scope(dict.fromkeys([*sorted(EVENT_FIELDS), *spec.mapping.payload], ""), measure=True)
    yield from ((f"measures.{name}", sql, of_session) for name, sql in spec.measures.items())
    for migration in spec.migrations:
        place = f"migrations.{migration.id}"
        own = ((name, getattr(migration, name)) for name in ("key", "client", "timeout_ms", "where"))
        yield from ((f"{place}.{name}", sql, Scope()) for name, sql in own if sql is not None)
        yield from ((f"{place}.columns.{name}", sql, Scope()) for name, sql in migration.columns.items())


def source_columns(source: Source) -> dict[str, str] | None:
    """Return the columns of a row of ``source`` with their types, None if the spec does not tell them."""
    if source.format == "delta":
        return None
    ddl = source.columns
    if source.format == "kafka" and source.encoding in IN_BYTES:
        if source.value_schema is None:
            return None  # the registry tells them
        ddl = source.value_schema.columns
    columns = {"value": "string"} if ddl is None else _declared_columns(ddl)
    return columns and {**columns, **(_KAFKA if source.format == "kafka" else {}), **_OWN}


def _declared_columns(ddl: str) -> dict[str, str] | None:
    """Return the columns of ``ddl`` with their types, None if this is not plain enough to be sure."""
    found: dict[str, str] = {}
    depth, name = 0, ""
    for word in words_of(ddl):
        depth += word.is_symbol("(", "<") - word.is_symbol(")", ">")
        if word.kind is WordKind.UNKNOWN or depth < 0:
            return None
        if word.is_symbol(",") and not depth and name:
            name = ""
        elif name:
            found[name] += f"{word.written.lower()} "
        elif word.kind in NAMES:
            name = word.name
            found[name] = ""
        else:
            return None
    return found
