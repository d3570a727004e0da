"""Verdicts on the fields of a spec, without the columns of its payload: one entry for each kind of field.

A field that is in no entry is judged unknown, so that a field of a later release is never taken in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.deployment.refusals import KEY_GROUPS, WHICH_SOURCE
from sessionizer.deployment.verdicts.verdict import Verdict, judge_change, partial_unless_empty
from sessionizer.stream_spec.column_types import ColumnType, PartKind, changed_parts, parse_declared_columns
from sessionizer.stream_spec.document.duration import parse_duration

if TYPE_CHECKING:
    from sessionizer.deployment.verdicts.migration_effects import MigrationEffects
    from sessionizer.deployment.verdicts.verdict import Difference, OpenState
    from sessionizer.stream_spec.decisions import Change

_LACKS: Final = {
    "mapping.key": (
        "key changed",
        "{open} stay under the old keys: sessions of a user may split or merge",
        "To move open events, declare a migration: key: …",
    ),
    "mapping.client": (
        "client changed",
        "earlier events in {open} keep their client and its timeout",
        "To change it, declare a migration: client: …",
    ),
    "mapping.event_time": (
        "event time changed",
        "{open} mix events of both clocks, and rows before the watermark are late",
        "Compare the two expressions on real rows first: `sessionizer tables` shows the present ones",
    ),
    "mapping.event_id": (
        "event id changed",
        "a duplicate of an earlier event counts as another event in {open}",
        "Change it while the source repeats no event",
    ),
}
"""Fields that open sessions lack something by: kind, reason, remedy."""

_DURATIONS: Final = {
    "rules.gap_timeout": ("gap", "earlier events keep the timeout that they came with"),
    "rules.client_timeouts.": ("client's gap", "earlier events keep the timeout that they came with"),
    "rules.watermark_delay": ("watermark delay", "a watermark never moves back"),
    "rules.max_duration": ("cap", "earlier events keep the caps that they came with"),
    "rules.emit_every": ("emit_every", "finished sessions come out in other steps, the same ones"),
    "rules.idle_after": ("idle_after", "the watermark of a quiet source moves on earlier or later"),
    "rules.future_tolerance": ("future tolerance", "it decides which new rows are quarantined"),
}
"""Durations: subject and reason. A field that ends in a dot stands for all fields below it."""

_IN_PLACE: Final = {
    "mapping.closes": ("closes changed", "earlier events keep the value that they came with, {open} continue"),
    "mapping.timeout_ms": ("timeout expression changed", "earlier events keep their timeout, {open} continue"),
    "rules.max_events": ("cap changed", "earlier events keep the caps that they came with"),
    "rules.max_bytes": ("cap changed", "earlier events keep the caps that they came with"),
    "rules.max_event_bytes": ("cap of a row changed", "it decides which new rows are quarantined"),
    "rules.client_timeouts_table": ("table of timeouts changed", "earlier events keep their timeout"),
    "trigger_interval": ("trigger changed", "batches start at other times"),
    "source.options.": ("source option changed", "it holds for rows that are read from now on"),
    "source.options_from_environment.": ("source secret changed", "it holds for rows that are read from now on"),
    "source.bootstrap_servers": ("brokers moved", "the topic and the position in it stay"),
    "source.encoding": ("encoding changed", "it holds for rows that are read from now on"),
    "source.schema": ("schema changed", "it holds for rows that are read from now on"),
    "source.schema.": ("schema changed", "it holds for rows that are read from now on"),
    "source.message": ("message changed", "it holds for rows that are read from now on"),
    "source.registry": ("registry changed", "it holds for rows that are read from now on"),
    "source.registry.": ("registry changed", "it holds for rows that are read from now on"),
    "source.accept_compaction": ("compaction accepted or refused", "records that are gone are not read either way"),
    "source.starting_offsets": ("start of a new checkpoint changed", "a lineage goes on where it was"),
    "sink.path": ("sink moved", "rows of sessions that end from now on go there, the old tables stay"),
    "sink.table": ("tables named", "the tables get the name from the next start on, an earlier name stays"),
    "sink.keep_events": ("sink changed", "it holds for sessions that end from now on"),
}
_ANOTHER_STREAM: Final = {
    "rules.time_mode": ("time mode changed", "open events are on the clock of before"),
    "name": ("stream renamed", "another name is another stream"),
}


def judge_field(stream: str, change: Change, state: OpenState, migrations: MigrationEffects) -> Difference:
    """Judge one changed field of a spec."""
    field = change.field
    known = _refuse(stream, change) or _lacking(change, state, migrations) or _duration(change)
    if known is not None:
        return known
    if field.startswith("measures."):
        return _measure(change)
    if field in {"source.columns", "source.schema.columns"}:
        return _source_columns(change)
    if field in {"source.host", "source.port"}:
        return judge_change(change, "socket moved", Verdict.IN_PLACE, "lines of a socket are read once wherever it is")
    found = next((entry for name, entry in _IN_PLACE.items() if _is_below(field, name)), None)
    if found is not None:
        return judge_change(change, found[0], Verdict.IN_PLACE, found[1].format(open=state.counted))
    reason = "this release does not know what the field does to open sessions"
    return judge_change(change, "unknown setting", Verdict.UNKNOWN, reason)


def _refuse(stream: str, change: Change) -> Difference | None:
    if change.field in WHICH_SOURCE:
        kind = "source of another type" if change.field == "source.format" else "source re-pointed"
        return judge_change(
            change, kind, Verdict.INCOMPATIBLE, "where the other source begins must be said",
            f"Run `sessionizer switch {stream} --start-at WHERE`",
        )  # fmt: skip
    if change.field in _ANOTHER_STREAM:
        kind, reason = _ANOTHER_STREAM[change.field]
        return judge_change(
            change, kind, Verdict.INCOMPATIBLE, reason, "Give the other stream a name and home of its own"
        )
    if change.field == KEY_GROUPS:
        return judge_change(change, "key groups changed", Verdict.MIGRATE, "the state is divided anew")
    return None


def _lacking(change: Change, state: OpenState, migrations: MigrationEffects) -> Difference | None:
    kind, reason, remedy = _LACKS.get(change.field, ("timeout expression changed", "", ""))
    if change.field in migrations.ids_of:
        return judge_change(change, kind, Verdict.MIGRATE, migrations.reason_for(change.field))
    if change.field not in _LACKS:
        return None
    if state.is_empty:
        return judge_change(change, kind, Verdict.IN_PLACE, "no session is open")
    return judge_change(change, kind, partial_unless_empty(state), reason.format(open=state.counted), remedy)


def _duration(change: Change) -> Difference | None:
    found = next((entry for name, entry in _DURATIONS.items() if _is_below(change.field, name)), None)
    if found is None:
        return None
    subject, reason = found
    return judge_change(change, f"{subject} {_direction(change)}", Verdict.IN_PLACE, reason)


def _direction(change: Change) -> str:
    if not (isinstance(change.before, str) and isinstance(change.now, str)):
        return "removed" if change.now is None else "set"
    return "loosened" if parse_duration(change.now) > parse_duration(change.before) else "tightened"


def _measure(change: Change) -> Difference:
    if change.before is None:
        return judge_change(change, "measure added", Verdict.IN_PLACE, "it is computed over all events of a session")
    if change.now is None:
        return judge_change(
            change, "measure dropped", Verdict.IN_PLACE, "the column stays in the table, null from now on"
        )
    reason = "sessions that end from now on have the new one, over all their events"
    return judge_change(change, "measure changed", Verdict.IN_PLACE, reason)


def _source_columns(change: Change) -> Difference:
    """Judge the declared columns of a source. An expression that reads one is judged by itself."""
    before, now = (
        ColumnType("struct", tuple((name, column.type) for name, column in parse_declared_columns(ddl).items()))
        for ddl in (change.before, change.now)
    )
    parts = list(changed_parts(before, now))
    if not parts:
        reason = "they are known by their names"
        return judge_change(change, "source columns reordered or rewritten", Verdict.NONE, reason)
    kinds = dict.fromkeys(
        f"source column {part.kind if part.kind in {PartKind.ADDED, PartKind.DROPPED} else 'retyped'}" for part in parts
    )
    named = ", ".join(f"{part.path} {part.kind}" for part in parts)
    return judge_change(
        change, ", ".join(kinds), Verdict.IN_PLACE, f"it holds for rows that are read from now on: {named}"
    )


def _is_below(field: str, name: str) -> bool:
    return field.startswith(name) if name.endswith(".") else field == name
