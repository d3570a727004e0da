"""Layout of open events of release 0.1.0, the first that was released.

Canonical rows have key, client, clock_ms, tie_ms on an arrival clock, event_id, closes, timeout_ms, the payload columns
with the prefix payload_, key_group, and admission (turn, late_before_ms, caps, columns).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

revision = "0001"
down_revision = None
downgrade = None


def upgrade(open_events: pa.Table) -> pa.Table:
    """Return the open events as they are, because no layout was released before."""
    return open_events
