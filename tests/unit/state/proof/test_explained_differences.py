"""The changes of a spec that explain a difference, and the many that do not."""

from __future__ import annotations

from typing import Any

import pytest

from sessionizer.state.proof.comparison import Difference, Kind
from sessionizer.state.proof.explanation import RULES, Explanation
from sessionizer.stream_spec.decisions import Change, decisions_of
from sessionizer.stream_spec.document.stream import StreamSpec
from support.streams.stage import clicks_spec

OLD, NEW = Kind.ONLY_OLD, Kind.ONLY_NEW
MEASURES = {"spent": ("sum(amount)", "sum(amount * 2)"), "views": ("count(page)",)}

EXPLAINED = [
    ("rules.gap_timeout", "sessions", OLD, ()),
    ("rules.gap_timeout", "sessions", Kind.COLUMNS, ("ended_at", "events.page", "spent")),
    ("rules.client_timeouts.acme", "sessions", NEW, ()),
    ("rules.watermark_delay", "late_events", NEW, ()),
    ("rules.watermark_delay", "late_events", Kind.COLUMNS, ("batch_id",)),
    ("rules.emit_every", "sessions", Kind.COLUMNS, ("batch_id",)),
    ("mapping.key", "late_events", Kind.COLUMNS, ("key",)),
    ("mapping.event_id", "quarantine", OLD, ()),
    ("mapping.client", "late_events", Kind.COLUMNS, ("client",)),
    ("mapping.closes", "sessions", NEW, ()),
    ("mapping.payload.page", "sessions", Kind.COLUMNS, ("events.page",)),
    ("mapping.payload.page", "late_events", Kind.COLUMNS, ("page",)),
    ("mapping.payload.amount", "sessions", Kind.COLUMNS, ("events.amount", "spent")),
    ("measures.spent", "sessions", Kind.COLUMNS, ("spent",)),
    ("sink.keep_events", "sessions", Kind.COLUMNS, ("events",)),
    ("source.options.multiLine", "quarantine", NEW, ()),
]
UNEXPLAINED = [
    ("rules.gap_timeout", "late_events", OLD, ()),
    ("rules.gap_timeout", "quarantine", NEW, ()),
    ("rules.emit_every", "sessions", Kind.COLUMNS, ("event_count",)),
    ("mapping.payload.page", "sessions", Kind.COLUMNS, ("events.page", "event_count")),
    ("mapping.payload.page", "sessions", Kind.COLUMNS, ("spent",)),
    ("mapping.payload.page", "sessions", OLD, ()),
    ("measures.spent", "sessions", Kind.COLUMNS, ("views",)),
    ("measures.spent", "sessions", OLD, ()),
    ("rules.watermark_delay", "quarantine", OLD, ()),
    ("trigger_interval", "sessions", OLD, ()),
    ("a_field_of_later", "sessions", Kind.COLUMNS, ("client",)),
]


def explained_by(field: str, table: str, kind: Kind, columns: tuple[str, ...]) -> tuple[str, ...]:
    return Explanation((Change(field, 1, 2),), MEASURES).fields(table, Difference(kind, columns, 1))


@pytest.mark.parametrize(("field", "table", "kind", "columns"), EXPLAINED)
def test_explained(field: str, table: str, kind: Kind, columns: tuple[str, ...]) -> None:
    assert explained_by(field, table, kind, columns) == (field,)


@pytest.mark.parametrize(("field", "table", "kind", "columns"), UNEXPLAINED)
def test_unexplained(field: str, table: str, kind: Kind, columns: tuple[str, ...]) -> None:
    assert explained_by(field, table, kind, columns) == ()


def test_each_column_may_have_an_explanation_of_its_own() -> None:
    changes = (Change("measures.spent", 1, 2), Change("mapping.payload.page", "a", "b"))
    explanation = Explanation(changes, {})
    both = Difference(Kind.COLUMNS, ("events.page", "spent"), 1)
    assert set(explanation.fields("sessions", both)) == {"measures.spent", "mapping.payload.page"}


def test_the_rules_know_the_fields_of_a_spec() -> None:
    """A field that is renamed would explain nothing any more."""
    spec: dict[str, Any] = clicks_spec(client_timeouts={"acme": "1 minute"}) | {
        "name": "clicks",
        "measures": {"n": "count(1)"},
    }
    known = decisions_of(StreamSpec.model_validate(spec))
    unknown = {
        field for rule in RULES for field in rule.fields
        if not any(each == field or each.startswith(f"{field}.") for each in known)
    }  # fmt: skip
    assert unknown == set()
