"""Layout of open events of release 0.2.0: the log of a key group also holds tombstones.

A merge that finishes few sessions leaves their events in the log, and appends a table with the one column ``deleted``
(bool): one value for each event of the tables before it. The newest such table counts. Release 0.1.0 wrote the log anew
in each merge, and knows no such table. Canonical rows are open events only, and are the same in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

revision = "0002"
down_revision = "0001"


def upgrade(open_events: pa.Table) -> pa.Table:
    """Return the open events as they are, because a log without tombstones is a log of this revision."""
    return open_events


def downgrade(open_events: pa.Table) -> pa.Table:
    """Return the open events as they are, because no canonical row is a deleted event."""
    return open_events
