"""Rules that say which changes of a spec explain which differences between old rows and new ones.

A change that no rule knows explains nothing: its rows stay unexplained.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS
from sessionizer.state.proof.comparison import DifferenceKind
from sessionizer.stream_spec.decisions import Change, leaves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sessionizer.state.proof.comparison import RowDifference
    from sessionizer.stream_spec.document.migration import Migration

CONFLICTS: Final = "conflicting_duplicates"
_ALL: Final = (SESSIONS, LATE_EVENTS, QUARANTINE, CONFLICTS)
_ANY_COLUMN: Final = ".*"
_NAME: Final = "{name}"
"""In a pattern of columns: the last part of the changed field, or a field of a struct of that name."""

_PAYLOAD_BLOCKS: Final = ("mapping.payload", "migrated.columns", "migrated.drop")


@dataclass(frozen=True, slots=True)
class Rule:
    """The reach of a change of one of ``fields`` (a field, or a block of fields).

    ``rows_of``: tables to which it may bring rows, and from which it may take some. ``columns``: by table, a pattern of
    the columns that it may alter in rows that both sides have.
    """

    fields: tuple[str, ...]
    rows_of: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)

    def is_about(self, changed: str) -> bool:
        """Whether the rule knows the field ``changed``."""
        return any(changed == each or changed.startswith(f"{each}.") for each in self.fields)

    def alters(self, table: str, column: str, changed: str) -> bool:
        """Whether a change of the field ``changed`` may give ``column`` another value."""
        name = re.escape(changed.rpartition(".")[2]) + r"(\..*)?"
        pattern = self.columns.get(table)
        return pattern is not None and re.fullmatch(pattern.replace(_NAME, name), column) is not None


RULES: Final = (
    Rule(  # what an event is
        (
            "mapping.key", "mapping.event_time", "mapping.event_id", "rules.max_event_bytes", "rules.future_tolerance",
            "source.columns", "source.encoding", "source.options",
        ),
        _ALL,
        dict.fromkeys(_ALL, _ANY_COLUMN),
    ),
    Rule(  # where a session ends: a duplicate conflicts as long as the session of the event before it is open
        (
            "rules.gap_timeout", "rules.client_timeouts", "rules.client_timeouts_table", "rules.max_events",
            "rules.max_duration", "rules.max_bytes",
        ),
        (SESSIONS, CONFLICTS),
        {SESSIONS: _ANY_COLUMN, CONFLICTS: r"batch_id|event\.timeout_ms"},
    ),
    Rule(
        ("mapping.client", "mapping.closes", "mapping.timeout_ms"),
        (SESSIONS, CONFLICTS),
        {SESSIONS: _ANY_COLUMN, LATE_EVENTS: _NAME, CONFLICTS: rf"batch_id|event\.({_NAME}|timeout_ms)"},
    ),
    Rule(
        ("rules.watermark_delay",),
        (SESSIONS, LATE_EVENTS, CONFLICTS),
        {SESSIONS: _ANY_COLUMN, LATE_EVENTS: "batch_id", CONFLICTS: "batch_id"},
    ),
    Rule(("rules.emit_every",), (SESSIONS, CONFLICTS), {SESSIONS: "batch_id", CONFLICTS: "batch_id"}),
    Rule(
        ("mapping.payload",),
        (QUARANTINE, CONFLICTS),
        {
            SESSIONS: rf"events\.{_NAME}", LATE_EVENTS: _NAME, QUARANTINE: "reason",
            CONFLICTS: rf"event\.payload_{_NAME}",
        },
    ),
    Rule(("measures",), (), {SESSIONS: _NAME}),
    Rule(  # sessions open at the fork, which a migration decides before it migrates what is open
        ("migrated.key", "migrated.client", "migrated.where", "migrated.timeout_ms"),
        (SESSIONS, CONFLICTS),
        dict.fromkeys((SESSIONS, CONFLICTS), _ANY_COLUMN),
    ),
    Rule(
        ("migrated.columns", "migrated.drop"),
        (CONFLICTS,),
        {SESSIONS: rf"events\.{_NAME}|batch_id", CONFLICTS: rf"event\.payload_{_NAME}|batch_id"},
    ),
    Rule(("sink.keep_events",), (), {SESSIONS: r"events(\..*)?"}),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Explanation:
    """The ``changes`` of a spec since the old rows were written.

    ``measures``: name to SQL, by the old spec and the new one. A change of a payload column explains measures over it.
    """

    changes: Sequence[Change]
    measures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def fields(self, table: str, difference: RowDifference) -> tuple[str, ...]:
        """Return the changed fields that explain a difference in ``table``. Empty: it is unexplained.

        Each column that differs must be explained.
        """
        if difference.kind is not DifferenceKind.COLUMNS:
            return tuple(change.field for change in self.changes if self._moves_rows(table, change.field))
        found: dict[str, None] = {}
        for column in difference.columns:
            fields = [change.field for change in self.changes if self._alters(table, column, change.field)]
            if not fields:
                return ()
            found |= dict.fromkeys(fields)
        return tuple(found)

    def _moves_rows(self, table: str, changed: str) -> bool:
        return any(rule.is_about(changed) and table in rule.rows_of for rule in RULES)

    def _alters(self, table: str, column: str, changed: str) -> bool:
        if any(rule.is_about(changed) and rule.alters(table, column, changed) for rule in RULES):
            return True
        block, _, payload = changed.rpartition(".")
        return block in _PAYLOAD_BLOCKS and table == SESSIONS and self._is_measure_over(column, payload)

    def _is_measure_over(self, column: str, payload: str) -> bool:
        word = re.compile(rf"\b{re.escape(payload)}\b", re.IGNORECASE)
        return any(word.search(sql) for sql in self.measures.get(column, ()))


def changes_by_migrations(migrations: Sequence[Migration]) -> tuple[Change, ...]:
    """Return what ``migrations`` do to open events as changes of fields, such as ``migrated.key``."""
    found = []
    for each in migrations:
        declared = each.model_dump(mode="json", exclude_defaults=True)
        dropped = {"drop": dict.fromkeys(declared.pop("drop", ()), "dropped")}
        del declared["id"]
        fields = leaves({**declared, **dropped}, "migrated.")
        found += [Change(name, None, f"{value} (migration {each.id})") for name, value in fields]
    return tuple(found)
