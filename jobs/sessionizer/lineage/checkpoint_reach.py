"""Check that a lineage's checkpoint is still there. If its mount is away, a driver would begin from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.errors import DataAway
from sessionizer.home.data_files import names_in
from sessionizer.home.data_reach import refused
from sessionizer.home.data_root import uri_of
from sessionizer.home.lineage_home import offset_log
from sessionizer.lineage.trial.batch_log import BatchLog

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


def require_checkpoint(home: StreamHome, lineage: str) -> None:
    """Raise DataAway if ``lineage`` has run batches and its checkpoint is not there. Writes nothing."""
    checkpoint = home.checkpoint(lineage)
    try:
        is_there = bool(names_in(offset_log(checkpoint)))
    except OSError as error:
        raise refused(checkpoint, "the checkpoint", error) from error
    if not is_there and BatchLog(home.lineage(lineage).batches).has_batches:
        raise DataAway(home.name, f"the checkpoint of lineage {lineage}", uri_of(checkpoint))
