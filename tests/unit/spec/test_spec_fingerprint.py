"""The fingerprint changes with what decides the result, and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from sessionizer.stream_spec.decisions import spec_fingerprint
from sessionizer.stream_spec.document.stream import StreamSpec
from support.faults.bad_clicks import changed


def fingerprint(changes: dict[str, Any]) -> str:
    return spec_fingerprint(StreamSpec.model_validate(changed(changes)))


def test_it_is_a_sha256() -> None:
    assert len(bytes.fromhex(fingerprint({}))) == 32


def test_the_order_of_keys_does_not_count() -> None:
    spec = changed({"mapping/payload/other": "page"})
    turned = {key: spec[key] for key in reversed(spec)}
    assert spec_fingerprint(StreamSpec.model_validate(turned)) == spec_fingerprint(StreamSpec.model_validate(spec))


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "other"},
        {"owner": "other"},
        {"rules/gap_timeout": "30 minutes"},
        {"rules/gap_timeout": "1800 seconds"},
        {"key_groups": 16},
    ],
)
def test_what_has_no_effect_does_not_count(changes: dict[str, Any]) -> None:
    assert fingerprint(changes) == fingerprint({})


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"trigger_interval": "1 hour"},
        {"source/path": "other"},
        {"source/options/allowComments": True},
        {"mapping/key": "other"},
        {"mapping/payload/other": "page"},
        {"rules/gap_timeout": "31 minutes"},
        {"rules/time_mode": "processing_time"},
        {"measures/pages": "count(page)"},
        {"sink/keep_events": False},
        {"key_groups": 17},
    ],
)
def test_what_decides_the_result_counts(changes: dict[str, Any]) -> None:
    assert fingerprint(changes) != fingerprint({})
