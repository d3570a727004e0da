"""The changes of a spec that explain a difference, and the many that do not."""

from __future__ import annotations

from typing import Any

import pytest

from sessionizer.state.proof.comparison import DifferenceKind, RowDifference
from sessionizer.state.proof.explanation import RULES, Explanation, changes_by_migrations
from sessionizer.stream_spec.decisions import Change, decisions_of
from sessionizer.stream_spec.document.migration import Migration
from sessionizer.stream_spec.document.stream import StreamSpec
from support.streams.stage import clicks_spec

OLD, NEW = DifferenceKind.ONLY_OLD, DifferenceKind.ONLY_NEW
MEASURES = {"spent": ("sum(amount)", "sum(amount * 2)"), "views": ("count(page)",)}

EXPLAINED = [
    ("rules.gap_timeout", "sessions", OLD, ()),
    ("rules.gap_timeout", "sessions", DifferenceKind.COLUMNS, ("ended_at", "events.page", "spent")),
    ("rules.client_timeouts.acme", "sessions", NEW, ()),
    ("rules.watermark_delay", "late_events", NEW, ()),
    ("rules.watermark_delay", "late_events", DifferenceKind.COLUMNS, ("batch_id",)),
    ("rules.emit_every", "sessions", DifferenceKind.COLUMNS, ("batch_id",)),
    ("mapping.key", "late_events", DifferenceKind.COLUMNS, ("key",)),
    ("mapping.event_id", "quarantine", OLD, ()),
    ("mapping.client", "late_events", DifferenceKind.COLUMNS, ("client",)),
    ("mapping.closes", "sessions", NEW, ()),
    ("mapping.payload.page", "sessions", DifferenceKind.COLUMNS, ("events.page",)),
    ("mapping.payload.page", "late_events", DifferenceKind.COLUMNS, ("page",)),
    ("mapping.payload.amount", "sessions", DifferenceKind.COLUMNS, ("events.amount", "spent")),
    ("measures.spent", "sessions", DifferenceKind.COLUMNS, ("spent",)),
    ("sink.keep_events", "sessions", DifferenceKind.COLUMNS, ("events",)),
    ("source.options.multiLine", "quarantine", NEW, ()),
    ("rules.gap_timeout", "conflicting_duplicates", DifferenceKind.COLUMNS, ("batch_id", "event.timeout_ms")),
    ("rules.client_timeouts.acme", "conflicting_duplicates", OLD, ()),
    ("mapping.timeout_ms", "conflicting_duplicates", DifferenceKind.COLUMNS, ("event.timeout_ms",)),
    ("mapping.payload.page", "conflicting_duplicates", DifferenceKind.COLUMNS, ("event.payload_page",)),
    ("mapping.payload.page", "sessions", DifferenceKind.COLUMNS, ("events.page.url",)),
]
UNEXPLAINED = [
    ("rules.gap_timeout", "late_events", OLD, ()),
    ("rules.gap_timeout", "quarantine", NEW, ()),
    ("rules.emit_every", "sessions", DifferenceKind.COLUMNS, ("event_count",)),
    ("mapping.payload.page", "sessions", DifferenceKind.COLUMNS, ("events.page", "event_count")),
    ("mapping.payload.page", "sessions", DifferenceKind.COLUMNS, ("spent",)),
    ("mapping.payload.page", "sessions", OLD, ()),
    ("measures.spent", "sessions", DifferenceKind.COLUMNS, ("views",)),
    ("measures.spent", "sessions", OLD, ()),
    ("rules.watermark_delay", "quarantine", OLD, ()),
    ("trigger_interval", "sessions", OLD, ()),
    ("rules.gap_timeout", "conflicting_duplicates", DifferenceKind.COLUMNS, ("event.payload_page", "event.timeout_ms")),
    ("rules.emit_every", "conflicting_duplicates", DifferenceKind.COLUMNS, ("event.timeout_ms",)),
    ("measures.spent", "conflicting_duplicates", OLD, ()),
    ("mapping.payload.page", "sessions", DifferenceKind.COLUMNS, ("events.page_of_another",)),
    ("a_field_of_later", "sessions", DifferenceKind.COLUMNS, ("client",)),
]


def explained_by(field: str, table: str, kind: DifferenceKind, columns: tuple[str, ...]) -> tuple[str, ...]:
    return Explanation((Change(field, 1, 2),), MEASURES).fields(table, RowDifference(kind, columns, 1))


@pytest.mark.parametrize(("field", "table", "kind", "columns"), EXPLAINED)
def test_explained(field: str, table: str, kind: DifferenceKind, columns: tuple[str, ...]) -> None:
    assert explained_by(field, table, kind, columns) == (field,)


@pytest.mark.parametrize(("field", "table", "kind", "columns"), UNEXPLAINED)
def test_unexplained(field: str, table: str, kind: DifferenceKind, columns: tuple[str, ...]) -> None:
    assert explained_by(field, table, kind, columns) == ()


def test_each_column_may_have_an_explanation_of_its_own() -> None:
    changes = (Change("measures.spent", 1, 2), Change("mapping.payload.page", "a", "b"))
    explanation = Explanation(changes, {})
    both = RowDifference(DifferenceKind.COLUMNS, ("events.page", "spent"), 1)
    assert set(explanation.fields("sessions", both)) == {"measures.spent", "mapping.payload.page"}


MIGRATED = Migration.model_validate(
    {"id": "users", "key": "coalesce(user_id, key)", "columns": {"page": "lower(page)"}, "drop": ["device"]}
)


@pytest.mark.parametrize(
    ("table", "kind", "columns", "fields"),
    [
        ("sessions", NEW, (), {"migrated.key"}),
        ("sessions", DifferenceKind.COLUMNS, ("events.page",), {"migrated.key", "migrated.columns.page"}),
        ("sessions", DifferenceKind.COLUMNS, ("events.device",), {"migrated.key", "migrated.drop.device"}),
        ("late_events", NEW, (), set()),
        ("quarantine", OLD, (), set()),
    ],
)
def test_a_migration_explains_sessions(
    table: str, kind: DifferenceKind, columns: tuple[str, ...], fields: set[str]
) -> None:
    explanation = Explanation(changes_by_migrations([MIGRATED]))
    assert set(explanation.fields(table, RowDifference(kind, columns, 1))) == fields


def test_a_migration_of_a_column_explains_no_row() -> None:
    changes = changes_by_migrations([MIGRATED.model_copy(update={"key": None})])
    assert [change.field for change in changes] == ["migrated.columns.page", "migrated.drop.device"]
    explanation = Explanation(changes, {"pages": ("count(distinct page)",)})
    assert explanation.fields("sessions", RowDifference(NEW, (), 1)) == ()
    assert explanation.fields("sessions", RowDifference(DifferenceKind.COLUMNS, ("pages",), 1)) == (
        "migrated.columns.page",
    )
    assert explanation.fields("sessions", RowDifference(DifferenceKind.COLUMNS, ("event_count",), 1)) == ()


def test_the_rules_know_the_fields_of_a_spec() -> None:
    """A field that is renamed would explain nothing any more."""
    spec: dict[str, Any] = clicks_spec(client_timeouts={"acme": "1 minute"}) | {
        "name": "clicks",
        "measures": {"n": "count(1)"},
    }
    known = decisions_of(StreamSpec.model_validate(spec))
    of_spec = {field for rule in RULES for field in rule.fields if not field.startswith("migrated.")}
    unknown = {field for field in of_spec if not any(f"{each}.".startswith(f"{field}.") for each in known)}
    assert unknown == set()
