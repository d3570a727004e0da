"""All differences between the running stream and the present file and programs, each with its verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.causes.cause import name_stream
from sessionizer.deployment.verdicts.engine import engine_differences
from sessionizer.deployment.verdicts.migration_effects import MigrationEffects
from sessionizer.deployment.verdicts.payload import PAYLOAD, PayloadChange
from sessionizer.deployment.verdicts.tables import SinkColumns
from sessionizer.deployment.verdicts.verdict import Difference, judge_change
from sessionizer.stream_spec.column_types import declared_columns, reads_other_type, resolve_path
from sessionizer.stream_spec.decisions import MIGRATIONS, Change, changes_between, field_at, leaves
from sessionizer.stream_spec.effect import Verdict
from sessionizer.stream_spec.sql_meaning import normal_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from sessionizer.deployment.verdicts.verdict import OpenState, Side
    from sessionizer.stream_spec.decisions import Document

_ORDER: Final = tuple(Verdict)


def judge_differences(
    before: Side,
    now: Side,
    state: OpenState,
    *,
    tables: SinkColumns | None = None,
    pending: Sequence[Mapping[str, Any]] = (),
    revisions: frozenset[str] = frozenset(),
) -> tuple[Difference, ...]:
    """Judge every difference, the gravest first. Pure, and without Spark.

    ``pending``: migrations of the present spec that the stream has not had yet. ``revisions``: layouts of the state
    that this release can bring to its own.
    """
    effects = MigrationEffects.of(pending)
    stream, engine = _name_of(before.spec, now.spec), engine_differences(before, now, revisions)
    found = [
        *(replace(each, remedy=name_stream(each.remedy, stream)) for each in engine),
        *spec_differences(before.spec, now.spec, state, tables or SinkColumns(), effects),
    ]
    return tuple(sorted(found, key=lambda each: -_ORDER.index(each.verdict)))


def spec_differences(
    before: Document, now: Document, state: OpenState, tables: SinkColumns, effects: MigrationEffects
) -> Iterator[Difference]:
    """Yield the differences of two specs."""
    stream = _name_of(before, now)
    for change in changes_between(dict(leaves(before)), dict(leaves(now))):
        if change.field == MIGRATIONS:
            if not effects.ids:
                yield judge_field(stream, Change(MIGRATIONS, _ids(change.before), _ids(change.now)), state, effects)
        elif not change.field.startswith(f"{PAYLOAD}."):
            yield judge_field(stream, change, state, effects)
    yield from _read_otherwise(before, now, state, effects)
    yield from PayloadChange(before, now, state, tables, effects).differences()
    if effects.ids:
        declared = Change(MIGRATIONS, None, ", ".join(effects.ids))
        yield judge_change(
            declared, "migrations declared", Verdict.MIGRATE, "applied once to the open events, in order"
        )


def judge_field(stream: str, change: Change, state: OpenState, migrations: MigrationEffects) -> Difference:
    """Judge one changed field by the effect that its model declares.

    A field without one is unknown, so that a field of a later release is never taken in silence.
    """
    known = field_at(change.field)
    if known is None:
        reason = "this release does not know what the field does to open sessions"
        return judge_change(change, "unknown setting", Verdict.UNKNOWN, reason)
    kind, verdict, reason = known.effect.describe(change)
    if change.field in migrations.ids_of:
        return judge_change(change, kind, Verdict.MIGRATE, migrations.reason_for(change.field))
    if verdict is Verdict.PARTIAL and state.is_empty:
        return judge_change(change, kind, Verdict.IN_PLACE, "no session is open")
    remedy = known.effect.remedy.replace("{stream}", stream)
    return judge_change(change, kind, verdict, reason.replace("{open}", state.counted), remedy)


def _read_otherwise(
    before: Document, now: Document, state: OpenState, effects: MigrationEffects
) -> Iterator[Difference]:
    """Yield the difference of each expression of ``mapping`` that kept its text over a column that has another type."""
    columns = declared_columns(before.get("source", {})), declared_columns(now.get("source", {}))
    for name, sql in now.get("mapping", {}).items():
        if isinstance(sql, str) and normal_sql(sql) == normal_sql(before["mapping"].get(name) or ""):
            column = reads_other_type(sql, *columns)
            if column is not None:
                types = (resolve_path(column.split("."), each) or "unknown" for each in columns)
                change = Change(f"mapping.{name}", *(f"{sql} ({column}: {kind})" for kind in types))
                yield judge_field(_name_of(before, now), change, state, effects)


def _name_of(before: Document, now: Document) -> str:
    return str(now.get("name", before.get("name", "")))


def _ids(migrations: list[Mapping[str, Any]] | None) -> str | None:
    return ", ".join(str(each["id"]) for each in migrations or ()) or None
