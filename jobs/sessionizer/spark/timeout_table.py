"""The Delta table of per-client timeouts: watched by the driver, passed on as punctuations.

Joining it would make a replay depend on what the table holds by then. A punctuation is in the offset log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from sessionizer.control.atomic_file import read_json, write_json
from sessionizer.control.table_places import located
from sessionizer.core.rules import NEVER_MS
from sessionizer.core.timeouts import changed_timeouts
from sessionizer.errors import InvalidSpec
from sessionizer.spark.expressions import first_line
from sessionizer.spark.punctuation import change_timeouts

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.spec.stream import StreamSpec


@dataclass(slots=True)
class TimeoutTable:
    """``announced``: the file that remembers what was passed on, so that a restart says only what is new."""

    spark: SparkSession
    location: str
    default_ms: int
    inline_ms: dict[str, int]
    announced: Path
    punctuations: Path

    @classmethod
    def of(cls, spark: SparkSession, spec: StreamSpec, platform_home: Path, lineage_home: Path) -> TimeoutTable | None:
        """The table that ``spec`` names, None when it names none; ``lineage_home`` keeps what was passed on."""
        rules = spec.rules
        if rules.client_timeouts_table is None:
            return None
        return cls(
            spark=spark,
            location=located(rules.client_timeouts_table, platform_home),
            default_ms=rules.gap_timeout_ms,
            inline_ms=dict(rules.client_timeouts),
            announced=lineage_home / "announced_timeouts.json",
            punctuations=lineage_home / "punctuations",
        )

    def announce_changes(self) -> dict[str, int]:
        """Pass on what changed since the last call; returns it (client to ms). Idempotent, safe to kill."""
        known = {client: int(timeout) for client, timeout in (read_json(self.announced) or {}).items()}
        current = read_timeouts(self.spark, self.location)
        changes = changed_timeouts(known, current, self.inline_ms, self.default_ms)
        if changes:
            # Said first, remembered second: a kill in between says it twice, which changes nothing.
            change_timeouts(self.punctuations, changes)
            write_json(self.announced, {**known, **changes})
        return changes


def check_timeout_table(spark: SparkSession, location: str) -> None:
    """Raises InvalidSpec when there is no such table or it has other columns."""
    try:
        read_timeouts(spark, location)
    except PySparkException as error:
        allowed = f"a Delta table of client (string), timeout_ms (bigint) ({first_line(error)})"
        raise InvalidSpec("rules.client_timeouts_table", location, allowed) from error


def read_timeouts(spark: SparkSession, location: str) -> dict[str, int]:
    """What the table says now: client to ms, without the rows that say nothing usable."""
    table = spark.read.format("delta").load(location)
    chosen = table.selectExpr("cast(client as string) client", "cast(timeout_ms as bigint) timeout_ms")
    rows = chosen.where("client is not null and timeout_ms > 0").collect()
    return {row.client: min(row.timeout_ms, NEVER_MS) for row in rows}
