"""What a task's share of a batch is packed into: blobs that are small, however much a group gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sessionizer.core.wire import codec as wide
from sessionizer.core.wire import schema as rows
from sessionizer.core.wire.codec import decode
from sessionizer.core.wire.schema import group_labels
from sessionizer.spark.query.assembly import GROUP, PUNCTUATION, packer

if TYPE_CHECKING:
    import pytest

EVENTS, GROUPS, TEXT_BYTES = 1_000, 4, 500


def test_a_group_with_many_events_gets_several_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "PIECE_BYTES", 20_000)
    numbers = list(range(EVENTS))
    batch = pa.record_batch(
        {
            "event_id": [f"{number:04}" for number in numbers],
            "page": ["x" * TEXT_BYTES] * EVENTS,
            "reason": pa.nulls(EVENTS, pa.string()),
            PUNCTUATION: pa.nulls(EVENTS, pa.string()),
            GROUP: pa.array([number % GROUPS for number in numbers], pa.int32()),
        }
    )
    (packed,) = packer(["event_id", "page"], GROUPS)(iter([batch]))
    labels = group_labels(GROUPS).tolist()
    found: dict[int, list[str]] = {label: [] for label in labels}
    for row in packed.to_pylist():
        events = decode(row["blob"])
        assert row["kind"] == rows.EVENTS
        assert events.nbytes <= wide.PIECE_BYTES + 2 * TEXT_BYTES
        found[row[GROUP]] += events["event_id"].to_pylist()
    expected = {labels[group]: [f"{number:04}" for number in numbers if number % GROUPS == group] for group in range(4)}
    assert found == expected
