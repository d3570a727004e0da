"""Where the data of a stream is: where its lineage began, whatever the environment of who asks says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.errors import SessionizerError
from sessionizer.home.data_root import data_root
from sessionizer.home.json_record import require_undamaged
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.checkpoint_record import CheckpointRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


def with_its_data(home: StreamHome) -> StreamHome:
    """The home with the data root of the active lineage; as it is where nothing is known of one. Opens no data."""
    try:
        lineage = active_lineage(home)
        record = require_undamaged(CheckpointRecord, home.lineage(lineage).checkpoint_record) if lineage else None
    except SessionizerError:
        return home
    return home if record is None else replace(home, data_root=data_root(record.data, home.platform))
