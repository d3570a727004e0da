"""Verdicts on the columns of the payload: each kind of change is told apart, because each does something else.

An open event keeps the columns that it came with (docs/adr/0050). So what a column's change does to open sessions
follows from the two expressions and their types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.deployment.verdicts.column_types import (
    expression_type,
    has_every_value,
    name_recorded_type,
    normal_expression,
    parse_declared_columns,
    replaces_null,
)
from sessionizer.deployment.verdicts.verdict import Difference, Verdict, judge_change, partial_unless_empty
from sessionizer.stream_spec.decisions import Change

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.deployment.verdicts.column_types import DeclaredColumn
    from sessionizer.deployment.verdicts.migration_effects import MigrationEffects
    from sessionizer.deployment.verdicts.tables import SinkColumns
    from sessionizer.deployment.verdicts.verdict import OpenState
    from sessionizer.stream_spec.decisions import Document

PAYLOAD: Final = "mapping.payload"


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
                (name for name in gone if normal_expression(before[name]) == normal_expression(now[new])), None
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
        was, is_ = self._type_before(name, before), expression_type(now, _columns(self.now))
        if was is not None and is_ is not None and was != is_:
            yield self._retyped(name, (before, now), was, is_)
        elif normal_expression(before) != normal_expression(now):
            yield self._computed(name, before, now)

    def _retyped(self, name: str, text: tuple[str, str], was: str, is_: str) -> Difference:
        before, now = (f"{expression} ({kind})" for expression, kind in zip(text, (was, is_), strict=True))
        kind = "column widened" if has_every_value(is_, was) else (
            "column narrowed" if has_every_value(was, is_) else "column of another type"
        )  # fmt: skip
        refused = self.tables.refusal(name, is_)
        if refused is not None:
            return judge_change(_column(name, before, now), kind, Verdict.INCOMPATIBLE, *refused)
        if kind == "column widened":
            return judge_change(_column(name, before, now), kind, Verdict.IN_PLACE, "open events take the wider type")
        if name in self.migrations.columns:
            return judge_change(_column(name, before, now), kind, Verdict.MIGRATE, self.migrations.reason_for(name))
        if self.state.is_empty and not self.state.types.get(name):
            return judge_change(_column(name, before, now), kind, Verdict.IN_PLACE, "no event of the old type is open")
        reason = f"{self.state.counted} may have values of type {was}, which {is_} cannot take"
        remedy = f"Give the column another name, or declare a migration: columns: {{{name}: cast({name} as {is_})}}"
        return judge_change(_column(name, before, now), kind, Verdict.INCOMPATIBLE, reason, remedy)

    def _computed(self, name: str, before: str, now: str) -> Difference:
        made_non_null = replaces_null(now, before)
        kind = "column made non-null" if made_non_null else "column computed otherwise"
        kept = "may still have null in it" if made_non_null else "keep the value of the old expression"
        verdict, reason, remedy = self._unless_migrated(
            name,
            f"earlier events in {self.state.counted} {kept}",
            f"To change them as well, declare a migration: columns: {{{name}: …}}",
        )
        return judge_change(_column(name, before, now), kind, verdict, reason, remedy)

    def _unless_migrated(self, name: str, reason: str, remedy: str) -> tuple[Verdict, str, str]:
        if name in self.migrations.columns:
            return Verdict.MIGRATE, self.migrations.reason_for(name), ""
        if self.state.is_empty:
            return Verdict.IN_PLACE, "no session is open", ""
        return partial_unless_empty(self.state), reason, remedy

    def _type_before(self, name: str, expression: str) -> str | None:
        known = self.state.types.get(name)
        return name_recorded_type(known[-1]) if known else expression_type(expression, _columns(self.before))


def _payload(spec: Document) -> dict[str, str]:
    return dict(spec.get("mapping", {}).get("payload") or {})


def _columns(spec: Document) -> dict[str, DeclaredColumn]:
    source = spec.get("source", {})
    return parse_declared_columns(source.get("columns") or (source.get("schema") or {}).get("columns"))


def _column(name: str, before: str | None, now: str | None) -> Change:
    return Change(f"{PAYLOAD}.{name}", before, now)
