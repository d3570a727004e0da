"""Check that a lineage can go on by a changed spec (docs/adr/0043).

Most changes hold from the next batch on. Changes that would lose events are refused. Some alter a fact of the
checkpoint, such as the number of key groups or the source. Others alter a batch that was cut short after it had
written: its rows are in a table, and its state is not committed. Delta skips rows that a table has, while the state
would follow the new spec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.checkpoint.batch_logs import read_begun_batch, read_last_commit
from sessionizer.deployment.refusals import require_continuable, require_whole
from sessionizer.deployment.upgrade_planning import require_no_loss
from sessionizer.spark.internals.delta_log import last_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from sessionizer.deployment.running_spec import RunningSpec
    from sessionizer.home.stream_home import StreamHome


def half_written_batch(spark: SparkSession, home: StreamHome, lineage: str, tables: Iterable[str]) -> int | None:
    """Return the batch that one of ``tables`` has rows of and the checkpoint no commit. None if there is none.

    ``tables``: the locations of those that the lineage wrote.
    """
    checkpoint = home.checkpoint(lineage)
    begun = read_begun_batch(checkpoint)
    if begun is None or begun == read_last_commit(checkpoint):
        return None
    return begun if any(last_version(spark, table, lineage) >= begun for table in tables) else None


def require_continuity(spark: SparkSession, running: RunningSpec, home: StreamHome, lineage: str) -> None:
    """Raise InvalidSpec, naming the field, if ``lineage`` cannot go on by the spec. Writes nothing.

    Raises NotAccepted if sessions that are open now would lack something by it.
    """
    if running.before is None or not running.applied or read_begun_batch(home.checkpoint(lineage)) is None:
        return
    require_continuable(home.name, running.applied)
    require_no_loss(home, lineage, running.spec)
    # the tables that the lineage wrote so far: by the new spec it may write others
    folder = running.before.get("sink.path", running.spec.sink.path)
    written = home.streamed_locations(folder).values()
    require_whole(running.applied, half_written_batch(spark, home, lineage, written))
