"""What a spec decides of a batch, by the names and in the words of a spec."""

from __future__ import annotations

from typing import Any

import pytest

from sessionizer.spec.decisions import Decisions, changed_fields, decisions_of
from sessionizer.spec.stream import StreamSpec
from spoiled_specs import changed


def decisions(changes: dict[str, Any]) -> Decisions:
    return decisions_of(StreamSpec.model_validate(changed(changes)))


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"key_groups": 17}, {"key_groups": 17}),
        ({"mapping/key": "lower(user_id)"}, {"mapping.key": "lower(user_id)"}),
        ({"mapping/timeout_ms": "timeout_s * 7"}, {"mapping.timeout_ms": "timeout_s * 7"}),
        ({"mapping/payload/other": "page"}, {"mapping.payload.other": "page"}),
        ({"rules/gap_timeout": "31 minutes"}, {"rules.gap_timeout": "31 minutes"}),
        ({"rules/max_duration": None}, {"rules.max_duration": None}),
        ({"rules/max_events": 7}, {"rules.max_events": 7}),
        ({"rules/time_mode": "none", "rules/idle_after": None}, {"rules.time_mode": "none", "rules.idle_after": None}),
        (
            {"rules/client_timeouts": {"app": "90 seconds"}, "mapping/client": "app"},
            {"rules.client_timeouts.app": "90 seconds", "mapping.client": "app"},
        ),
    ],
)
def test_a_change_is_told_by_the_name_of_its_field(changes: dict[str, Any], fields: dict[str, object]) -> None:
    before, now = decisions({}), decisions(changes)
    assert {field: now.get(field) for field in changed_fields(before, now)} == fields
    assert set(changed_fields(now, before)) == set(fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "other"},
        {"owner": "other"},
        {"trigger_interval": "1 hour"},
        {"source/options/maxFilesPerTrigger": 7},
        {"rules/gap_timeout": "1800 seconds"},
    ],
)
def test_what_is_settled_when_a_batch_begins_is_no_decision(changes: dict[str, Any]) -> None:
    assert decisions(changes) == decisions({})


def test_a_field_that_an_earlier_release_did_not_have_is_no_change_as_long_as_it_is_null() -> None:
    assert changed_fields({"key_groups": 16}, {"key_groups": 16, "rules.newer": None}) == []
