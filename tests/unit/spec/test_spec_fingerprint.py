"""The fingerprint changes with what decides the result, and with nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from sessionizer.spec.fingerprint import spec_fingerprint
from sessionizer.spec.stream import StreamSpec
from spoiled_specs import changed


def fingerprint(changes: dict[str, Any]) -> str:
    return spec_fingerprint(StreamSpec.model_validate(changed(changes)))


def test_it_is_a_sha256() -> None:
    assert len(bytes.fromhex(fingerprint({}))) == 32


def test_it_stays_the_same_from_release_to_release() -> None:
    """A change here makes every savepoint look as if it came from another spec."""
    assert fingerprint({}) == "97d82467b7114c8fde1ada7ba92f5371f863ca6f840661d7572a70356be4acdb"


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "other"},
        {"owner": "other"},
        {"trigger_interval": "1 hour"},
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
        {"source/path": "other"},
        {"source/options/multiLine": True},
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
