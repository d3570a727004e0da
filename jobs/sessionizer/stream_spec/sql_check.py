"""The check of all SQL in a spec without Spark: the guard over the columns that the spec itself tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.errors import InvalidSpec, SpecProblems
from sessionizer.stream_spec.document.names import EVENT_FIELDS
from sessionizer.stream_spec.document.value_schema import IN_BYTES
from sessionizer.stream_spec.sql_guard import Scope, refuse_sql
from sessionizer.stream_spec.sql_words import NAMES, WordKind, words_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.stream_spec.document.source import Source
    from sessionizer.stream_spec.document.stream import StreamSpec

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
