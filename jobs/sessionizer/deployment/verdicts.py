"""The verdict on each difference between the running stream and the present file and programs: pure.

An open event keeps the columns that it came with (docs/adr/0050). So what a column's change does to open sessions
follows from the two expressions and their types.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sessionizer.causes.cause import name_stream
from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.deployment.differences import Difference, MigrationEffects, OpenState, Side, SinkColumns, judge_change
from sessionizer.lineage.fingerprint import ENGINE, PROGRAMS, RELEASE, release_line
from sessionizer.stream_spec.column_types import (
    ChangedPart,
    ColumnType,
    PartKind,
    changed_parts,
    declared_columns,
    expression_type,
    is_path,
    read_recorded_type,
    reads_other_type,
    replaces_null,
    resolve_path,
    strip_cast,
)
from sessionizer.stream_spec.decisions import MIGRATIONS, Change, Document, changes_between, field_at, leaves
from sessionizer.stream_spec.effect import Verdict
from sessionizer.stream_spec.sql_guard import normal_sql

CODE: Final = "code"
STATE: Final = "state"
SETTING: Final = "setting "
_STATE_STORE: Final = "spark.sql.streaming.stateStore."
PINNED: Final = frozenset(
    {
        PARTITIONS,
        "spark.sql.streaming.internal.stateStore.partitions",
        f"{_STATE_STORE}providerClass",
        f"{_STATE_STORE}encodingFormat",
        f"{_STATE_STORE}compression.codec",
        f"{_STATE_STORE}rocksdb.formatVersion",
        f"{_STATE_STORE}rocksdb.mergeOperatorVersion",
        f"{_STATE_STORE}rowChecksum.enabled",
        "spark.sql.streaming.join.stateFormatVersion",
        "spark.sql.streaming.aggregation.stateFormatVersion",
        "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
        "spark.sql.streaming.multipleWatermarkPolicy",
        "spark.sql.streaming.statefulOperator.useStrictDistribution",
        "spark.sql.streaming.queryEvolution.enableSourceEvolution",
        "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
        "spark.sql.function.protobufExtensions.enabled",
    }
)
"""Settings that Spark 4.2 pins in a checkpoint, as this release knows them."""


def engine_differences(before: Side, now: Side, revisions: frozenset[str] = frozenset()) -> Iterator[Difference]:
    """Yield differences of programs, code and layout. ``revisions``: layouts that this release brings to its own."""
    yield from _state(before, now, revisions)
    yield from _release(before, now)
    kept, present = before.fingerprint.versions, now.fingerprint.versions
    for name in PROGRAMS:
        if name != RELEASE and name in kept and name in present and kept[name] != present[name]:
            yield _program(name, kept[name], present[name])
    yield from _settings(before.fingerprint.configuration, now.fingerprint.configuration)


def _program(name: str, kept: str, now: str) -> Difference:
    same_line = release_line(kept) == release_line(now)
    kind = f"{PROGRAMS[name].title} {'patch' if same_line else 'line'} changed"
    if name not in ENGINE or same_line:
        arrow = "open events are Arrow data, which any version reads"
        reason = "releases of one line continue with the same checkpoint, in any order" if name in ENGINE else arrow
        return Difference(name, kind, kept, now, Verdict.IN_PLACE, reason)
    reason = f"a checkpoint of {name} {release_line(kept)} was never tested with {release_line(now)}"
    remedy = "If you accept it, a new lineage gets the open sessions. The old one stays for the old version"
    return Difference(name, kind, kept, now, Verdict.UNKNOWN, reason, remedy)


def _release(before: Side, now: Side) -> Iterator[Difference]:
    kept, present = (side.fingerprint.versions.get(RELEASE) for side in (before, now))
    if kept != present and kept is not None and present is not None:
        kind = "release newer" if _numbers(present) > _numbers(kept) else "release older"
        yield Difference(RELEASE, kind, kept, present, Verdict.IN_PLACE, "the layout of the state decides")
    was, is_ = before.fingerprint.code, now.fingerprint.code
    if was and is_ and was != is_:
        reason = "the new code divides earlier events into sessions, too"
        remedy = "To compare what both codes make of the same batches: `sessionizer prove …`"
        yield Difference(CODE, "deciding code changed", was[:12], is_[:12], Verdict.IN_PLACE, reason, remedy)


def _state(before: Side, now: Side, revisions: frozenset[str]) -> Iterator[Difference]:
    kept, present = (f"{side.checkpoint_format}/{side.revision}" for side in (before, now))
    if kept == present:
        return
    kind = "layout of the state changed"
    if before.checkpoint_format == now.checkpoint_format and before.revision in revisions:
        reason = "released revisions bring the open events to the layout of this release"
        yield Difference(STATE, kind, kept, present, Verdict.MIGRATE, reason)
        return
    made_by = before.fingerprint.versions.get(RELEASE)
    release = f"release {made_by}" if made_by else "the release that made it"
    remedy = f"With {release}, make a canonical savepoint (`sessionizer savepoint create … --stop`) and restore it here"
    yield Difference(STATE, kind, kept, present, Verdict.INCOMPATIBLE, "this release cannot read it", remedy)


def _settings(kept: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[Difference]:
    """Judge settings that are pinned and wanted otherwise now. The others stay as they are."""
    for name in sorted({*kept, *wanted}):
        was, is_ = kept.get(name), wanted.get(name)
        if name not in PINNED and was is not None:
            reason = "the checkpoint pins a setting that this release does not know"
            yield Difference(f"{SETTING}{name}", "unknown setting", was, is_, Verdict.UNKNOWN, reason)
        elif name == PARTITIONS and was and is_ and was != is_:
            yield Difference("partitions", "partitions changed", was, is_, Verdict.MIGRATE, "the state is divided anew")
        elif was and is_ and was != is_:
            reason = "the checkpoint keeps its own until the next new lineage"
            yield Difference(f"{SETTING}{name}", "pinned setting changed", was, is_, Verdict.NONE, reason)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


PAYLOAD: Final = "mapping.payload"
_GRAVITY: Final = (PartKind.WIDENED, PartKind.ADDED, PartKind.DROPPED, PartKind.NARROWED, PartKind.OTHER)


@dataclass(frozen=True, slots=True)
class PayloadChange:
    """The payload of two specs over an open state. ``tables``: columns of the sinks. ``migrations``: pending ones."""

    before: Document
    now: Document
    state: OpenState
    tables: SinkColumns
    migrations: MigrationEffects

    def differences(self) -> Iterator[Difference]:
        """Yield a difference for each column that changed, and one for another order."""
        before, now = _payload(self.before), _payload(self.now)
        renamed = dict(self._renames(before, now))
        for name in [name for name in now if name not in before and name not in renamed]:
            reason = f"{self.state.counted} have null in it for earlier events"
            remedy = f"To give open events a value, declare a migration: columns: {{{name}: …}}"
            change = _column(name, None, now[name])
            yield judge_change(change, "column added", *self._unless_migrated(name, reason, remedy))
        for new, old in renamed.items():
            yield self._renamed(old, new, (before[old], now[new]))
        for name in [name for name in before if name not in now and name not in renamed.values()]:
            yield self._dropped(name, before[name])
        shared = [name for name in before if name in now]
        for name in shared:
            yield from self._changed(name, before[name], now[name])
        if shared != [name for name in now if name in before]:
            yield Difference(
                PAYLOAD, "columns reordered", ", ".join(before), ", ".join(now), Verdict.NONE,
                "columns are known by their names",
            )  # fmt: skip

    def _renames(self, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the new and the old name of each column that kept its expression, or that a migration names so."""
        gone = [name for name in before if name not in now]
        for new in [name for name in now if name not in before]:
            declared = self.migrations.source_of(new)
            old = declared if declared in gone else next(
                (name for name in gone if normal_sql(before[name]) == normal_sql(now[new])), None
            )  # fmt: skip
            if old is not None:
                gone.remove(old)
                yield new, old

    def _renamed(self, old: str, new: str, text: tuple[str, str]) -> Difference:
        reason = f"{self.state.counted} lose the values of {old}: {new} is null for earlier events"
        remedy = f"To keep them, declare a migration: columns: {{{new}: {old}}}, drop: [{old}]"
        change = _column(new, f"{old}: {text[0]}", f"{new}: {text[1]}")
        return judge_change(change, "column renamed", *self._unless_migrated(new, reason, remedy))

    def _dropped(self, name: str, expression: str) -> Difference:
        change = _column(name, expression, None)
        if name in self.migrations.dropped:
            return judge_change(change, "column dropped", Verdict.MIGRATE, self.migrations.reason_for(name))
        reason = f"{self.state.counted} come out without it. The column stays in the tables, null from now on"
        return judge_change(change, "column dropped", Verdict.IN_PLACE, reason)

    def _changed(self, name: str, before: str, now: str) -> Iterator[Difference]:
        columns = tuple(declared_columns(each.get("source", {})) for each in (self.before, self.now))
        was, is_ = expression_type(before, columns[0]), expression_type(now, columns[1])
        is_rewritten, reads_other = normal_sql(before) != normal_sql(now), reads_other_type(now, *columns)
        same_type = was == is_ or bool(was and is_ and not any(changed_parts(was, is_)))
        # the same fields may be in another order
        if not is_rewritten and same_type and (is_path(now) or not reads_other):
            return
        if recorded := self.state.types.get(name):
            was = read_recorded_type(recorded[-1]) or was
        parts = tuple(changed_parts(was.kept, is_.kept, name)) if was and is_ else ()
        change = _column(name, f"{before} ({was})", f"{now} ({is_})") if parts else _column(name, before, now)
        if parts and is_ is not None:
            found = self._retyped(name, change, parts, is_)
            is_same_value = strip_cast(before) == strip_cast(now) and (not reads_other or is_path(now))
            if found.verdict is not Verdict.IN_PLACE or self.state.is_empty or is_same_value:
                yield found
                return
        yield self._computed(name, change, replaces_null(now, before), "" if is_rewritten else reads_other or "")

    def _retyped(self, name: str, change: Change, parts: Sequence[ChangedPart], is_: ColumnType) -> Difference:
        """Judge a column of another type, by the gravest change of a part of it."""
        part = max(parts, key=lambda each: _GRAVITY.index(each.kind))
        kind = f"{'column' if part.path == name else 'field'} {part.kind}"
        refused = self.tables.refusal(name, is_)
        if refused is not None:
            return judge_change(change, kind, Verdict.INCOMPATIBLE, *refused)
        if part.kind is PartKind.WIDENED:
            return judge_change(change, kind, Verdict.IN_PLACE, "open events take the wider type")
        if part.kind in {PartKind.ADDED, PartKind.DROPPED}:
            remedy = f"To keep or fill them, declare a migration: columns: {{{name}: …}}"
            return judge_change(change, kind, *self._unless_migrated(name, self._lacks(parts), remedy))
        if name in self.migrations.columns:
            return judge_change(change, kind, Verdict.MIGRATE, self.migrations.reason_for(name))
        if self.state.is_empty and not self.state.types.get(name):
            return judge_change(change, kind, Verdict.IN_PLACE, "no event of the old type is open")
        at, example = ("", f"cast({name} as {is_})") if part.path == name else (f" in {part.path}", "…")
        reason = f"{self.state.counted} may have values of type {part.before}{at}, which stay what they are"
        remedy = f"Give the column another name, or declare a migration: columns: {{{name}: {example}}}"
        return judge_change(change, kind, Verdict.INCOMPATIBLE, reason, remedy)

    def _lacks(self, parts: Sequence[ChangedPart]) -> str:
        """Say which fields of a struct open sessions lose or lack, by their paths."""
        effects = {PartKind.DROPPED: "lose {}", PartKind.ADDED: "have null in {} for earlier events"}
        paths = {kind: ", ".join(part.path for part in parts if part.kind is kind) for kind in effects}
        said = (effects[kind].format(found) for kind, found in paths.items() if found)
        return f"{self.state.counted} {' and '.join(said)}"

    def _computed(self, name: str, change: Change, made_non_null: bool, reads_other: str) -> Difference:  # noqa: FBT001
        """Judge a column with another text, or with the same one over a column that changed (``reads_other``)."""
        kind = "column made non-null" if made_non_null else "column computed otherwise"
        kept = "may still have null in it" if made_non_null else "keep the value of the old expression"
        why = f", because {reads_other} changed" if reads_other else ""
        reason = f"earlier events in {self.state.counted} {kept}{why}"
        remedy = f"To change them as well, declare a migration: columns: {{{name}: …}}"
        return judge_change(change, kind, *self._unless_migrated(name, reason, remedy))

    def _unless_migrated(self, name: str, reason: str, remedy: str) -> tuple[Verdict, str, str]:
        if name in self.migrations.columns:
            return Verdict.MIGRATE, self.migrations.reason_for(name), ""
        if self.state.is_empty:
            return Verdict.IN_PLACE, "no session is open", ""
        return Verdict.PARTIAL, reason, remedy


def _payload(spec: Document) -> dict[str, str]:
    return dict(spec.get("mapping", {}).get("payload") or {})


def _column(name: str, before: str | None, now: str | None) -> Change:
    return Change(f"{PAYLOAD}.{name}", before, now)


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
    if before == now and [*_payload(before)] == [*_payload(now)] and not effects.ids:
        return  # as of nearly every stream of a list
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
        declared, reason = ", ".join(effects.ids), "applied once to the open events, in order"
        yield Difference(MIGRATIONS, "migrations declared", None, declared, Verdict.MIGRATE, reason)


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
        if isinstance(sql, str) and normal_sql(sql) == normal_sql(before.get("mapping", {}).get(name) or ""):
            column = reads_other_type(sql, *columns)
            if column is not None:
                types = (resolve_path(column.split("."), each) or "unknown" for each in columns)
                change = Change(f"mapping.{name}", *(f"{sql} ({column}: {kind})" for kind in types))
                yield judge_field(_name_of(before, now), change, state, effects)


def _name_of(before: Document, now: Document) -> str:
    return str(now.get("name", before.get("name", "")))


def _ids(migrations: list[Mapping[str, Any]] | None) -> str | None:
    return ", ".join(str(each["id"]) for each in migrations or ()) or None
