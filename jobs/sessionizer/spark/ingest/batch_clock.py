"""The wall clock of a micro-batch, for expressions whose generated code is the same in every batch.

Spark replaces ``current_timestamp()`` by the time in the offset log of the batch, so a replay is judged alike. It would
write the time as a number into the Java text that it generates, which would then be compiled anew in every batch. The
clock is therefore a table of one row that is broadcast to the rows (docs/tuning.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NOW_MS: Final = "_now_ms"


class BatchClock:
    """The clock that rows are judged by, in epoch ms: ``instant``, or that of the running micro-batch if it is None."""

    def __init__(self, instant: int | None) -> None:
        self._instant = instant

    def add_clock(self, rows: DataFrame) -> DataFrame:
        """Return ``rows`` over which ``now_ms`` can be evaluated. The clock of a batch is one more column."""
        if self._instant is not None:
            return rows
        # a higher-order function keeps the number out of the generated text of the small table, too
        hidden = F.transform(F.array(F.lit(0)), lambda _: F.unix_millis(F.current_timestamp()))
        clock = rows.sparkSession.range(0, 1, 1, numPartitions=1).select(hidden.getItem(0).alias(_NOW_MS))
        return rows.crossJoin(F.broadcast(clock))

    @property
    def now_ms(self) -> Column:
        """Return the clock's time (bigint), for rows that ``add_clock`` returned."""
        return F.col(_NOW_MS) if self._instant is None else F.lit(self._instant).cast("bigint")
