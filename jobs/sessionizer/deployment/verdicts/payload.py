"""Verdicts on the columns of the payload: each kind of change is told apart, because each does something else.

An open event keeps the columns that it came with (docs/adr/0050). So what a column's change does to open sessions
follows from the two expressions and their types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.deployment.verdicts.verdict import Difference, judge_change
from sessionizer.stream_spec.column_types import (
    PartKind,
    changed_parts,
    declared_columns,
    expression_type,
    is_path,
    read_recorded_type,
    reads_other_type,
    replaces_null,
    strip_cast,
)
from sessionizer.stream_spec.decisions import Change
from sessionizer.stream_spec.effect import Verdict
from sessionizer.stream_spec.sql_meaning import normal_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sessionizer.deployment.verdicts.migration_effects import MigrationEffects
    from sessionizer.deployment.verdicts.tables import SinkColumns
    from sessionizer.deployment.verdicts.verdict import OpenState
    from sessionizer.stream_spec.column_types import ChangedPart, ColumnType
    from sessionizer.stream_spec.decisions import Document

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
            yield self._added(name, now[name])
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

    def _added(self, name: str, expression: str) -> Difference:
        verdict, reason, remedy = self._unless_migrated(
            name,
            f"{self.state.counted} have null in it for earlier events",
            f"To give open events a value, declare a migration: columns: {{{name}: …}}",
        )
        return judge_change(_column(name, None, expression), "column added", verdict, reason, remedy)

    def _renamed(self, old: str, new: str, text: tuple[str, str]) -> Difference:
        verdict, reason, remedy = self._unless_migrated(
            new,
            f"{self.state.counted} lose the values of {old}: {new} is null for earlier events",
            f"To keep them, declare a migration: columns: {{{new}: {old}}}, drop: [{old}]",
        )
        return judge_change(
            _column(new, f"{old}: {text[0]}", f"{new}: {text[1]}"), "column renamed", verdict, reason, remedy
        )

    def _dropped(self, name: str, expression: str) -> Difference:
        if name in self.migrations.dropped:
            return judge_change(
                _column(name, expression, None), "column dropped", Verdict.MIGRATE, self.migrations.reason_for(name)
            )
        reason = f"{self.state.counted} come out without it; the column stays in the tables, null from now on"
        return judge_change(_column(name, expression, None), "column dropped", Verdict.IN_PLACE, reason)

    def _changed(self, name: str, before: str, now: str) -> Iterator[Difference]:
        """Judge a column of both specs: by its types, then by its texts and the columns that they read."""
        columns = tuple(declared_columns(each.get("source", {})) for each in (self.before, self.now))
        was, is_ = expression_type(before, columns[0]), expression_type(now, columns[1])
        is_rewritten, reads_other = normal_sql(before) != normal_sql(now), reads_other_type(now, *columns)
        same_type = was == is_ or bool(was and is_ and not any(changed_parts(was, is_)))
        # the same fields may be in another order
        if not is_rewritten and same_type and (is_path(now) or not reads_other):
            return
        was = self._recorded_type(name) or was
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
        verdict, reason, remedy = self._unless_migrated(
            name,
            f"earlier events in {self.state.counted} {kept}{f', because {reads_other} changed' if reads_other else ''}",
            f"To change them as well, declare a migration: columns: {{{name}: …}}",
        )
        return judge_change(change, kind, verdict, reason, remedy)

    def _unless_migrated(self, name: str, reason: str, remedy: str) -> tuple[Verdict, str, str]:
        if name in self.migrations.columns:
            return Verdict.MIGRATE, self.migrations.reason_for(name), ""
        if self.state.is_empty:
            return Verdict.IN_PLACE, "no session is open", ""
        return Verdict.PARTIAL, reason, remedy

    def _recorded_type(self, name: str) -> ColumnType | None:
        known = self.state.types.get(name)
        return read_recorded_type(known[-1]) if known else None


def _payload(spec: Document) -> dict[str, str]:
    return dict(spec.get("mapping", {}).get("payload") or {})


def _column(name: str, before: str | None, now: str | None) -> Change:
    return Change(f"{PAYLOAD}.{name}", before, now)
