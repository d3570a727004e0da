"""Which changed options a batch that is half-written cannot take."""

from __future__ import annotations

import pytest

from sessionizer.deployment.running_spec import require_whole
from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.decisions import Change

HALF_WRITTEN = 7


@pytest.mark.parametrize("option", ["kafka.isolation.level", "kafka.Isolation.Level"])
def test_which_records_are_read_concerns_a_half_written_batch(option: str) -> None:
    change = Change(f"source.options.{option}", None, "read_uncommitted")
    with pytest.raises(InvalidSpec) as caught:
        require_whole([change], HALF_WRITTEN)
    assert caught.value.field == change.field


@pytest.mark.parametrize("option", ["kafka.max.poll.records", "maxOffsetsPerTrigger"])
def test_how_records_are_fetched_does_not(option: str) -> None:
    require_whole([Change(f"source.options.{option}", None, "5")], HALF_WRITTEN)
