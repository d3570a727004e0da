"""The Delta table of per-client timeouts: watched by the driver, passed on as punctuations.

Joining it would make a replay depend on what the table holds by then. A punctuation is in the offset log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionizer.core.definition.rules import NEVER_MS, find_changed_timeouts
from sessionizer.errors import InvalidSpec
from sessionizer.home.json_record import JsonObject, add_stamp, content_of
from sessionizer.home.record_file import read_json, write_json
from sessionizer.home.roots import ControlPath, DataPath, resolve_place
from sessionizer.home.stream_home import LineageHome
from sessionizer.spark.ingest.punctuation import change_timeouts
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.stream_spec.document.names import format_duration
from sessionizer.stream_spec.document.stream import StreamSpec

MOST_SHOWN: Final = 10
_TIMEOUTS: Final = "timeouts"


@dataclass(slots=True)
class TimeoutTable:
    """The table of timeouts.

    ``announced``: the file with the timeouts passed on, so that a restart passes on only new ones.
    """

    spark: SparkSession
    location: str | None
    default_ms: int
    inline_ms: dict[str, int]
    announced: ControlPath
    punctuations: DataPath
    _told: bool = False

    @classmethod
    def of(
        cls, spark: SparkSession, spec: StreamSpec, platform_home: Path, lineage: LineageHome
    ) -> TimeoutTable | None:
        """Choose the table that ``spec`` names. ``lineage`` keeps the timeouts that were passed on.

        None if the spec names no table and no timeout was ever passed on. Else the spec's own timeouts must be passed
        on.
        """
        rules, announced = spec.rules, lineage.announced_timeouts
        named = rules.client_timeouts_table
        if named is None and not read_announced_timeouts(announced):
            return None
        return cls(
            spark=spark,
            location=None if named is None else resolve_place(named, platform_home),
            default_ms=rules.gap_timeout_ms,
            inline_ms=dict(rules.client_timeouts),
            announced=announced,
            punctuations=lineage.punctuations,
        )

    def announce_changes(self) -> dict[str, int]:
        """Pass on the changes since the last call, and return them (client to ms). Idempotent, safe to kill.

        Raises PySparkException, JavaError if the table cannot be read. Then the timeouts passed on before hold.
        """
        known = read_announced_timeouts(self.announced)
        current = {} if self.location is None else read_timeout_table(self.spark, self.location)
        changes = find_changed_timeouts(known, current, self.inline_ms, self.default_ms)
        if changes:
            # Said first, remembered second: a kill in between says it twice, which changes nothing.
            change_timeouts(self.punctuations, changes)
            write_json(self.announced, announcement({**known, **changes}))
        return changes

    def look(self) -> str | None:
        """Pass on changes, and return a line if there are any, if the table cannot be read, or can be read again.

        An unreadable table is reported once, and does not end the driver.
        """
        try:
            changes = self.announce_changes()
        except (PySparkException, JavaError) as error:
            told, self._told = self._told, True
            unread = f"cannot read the table of timeouts at {self.location}: {java_message(error)}"
            return None if told else f"{unread}. The known timeouts stay in force"
        recovered, self._told = self._told, False
        if changes:
            return f"timeouts changed from the next event on: {_shown(changes)}"
        return "the table of timeouts can be read again" if recovered else None

    @property
    def warning(self) -> str | None:
        """Current problem, None if there is none."""
        if not self._told:
            return None
        return "the table of client timeouts cannot be read: the timeouts that were read last apply"


def announcement(timeouts_ms: Mapping[str, int]) -> JsonObject:
    """Return the content of the file of announced timeouts, client to ms."""
    return add_stamp({_TIMEOUTS: dict(timeouts_ms)})


def read_announced_timeouts(file: ControlPath) -> dict[str, int]:
    """Read the announced timeouts, client to ms, none if ``file`` is absent or damaged.

    Raises DamagedFile if it is too new.
    """
    known = content_of(file, read_json(file) or {}, _TIMEOUTS)
    return {client: int(str(timeout)) for client, timeout in known.items()}


def _shown(changes: Mapping[str, int]) -> str:
    """Format the first changes only, because there may be as many as clients."""
    first = ", ".join(f"{client} {format_duration(ms)}" for client, ms in islice(changes.items(), MOST_SHOWN))
    more = len(changes) - MOST_SHOWN
    return f"{first} and {more:,} more" if more > 0 else first


def check_timeout_table(spark: SparkSession, location: str) -> None:
    """Raise InvalidSpec if there is no such table or it has other columns."""
    try:
        read_timeout_table(spark, location)
    except PySparkException as error:
        allowed = f"a Delta table of client (string), timeout_ms (bigint) ({java_message(error)})"
        raise InvalidSpec("rules.client_timeouts_table", location, allowed) from error


def read_timeout_table(spark: SparkSession, location: str) -> dict[str, int]:
    """Read the timeouts in the table, client to ms, without unusable rows."""
    table = spark.read.format("delta").load(location)
    chosen = table.selectExpr("cast(client as string) client", "cast(timeout_ms as bigint) timeout_ms")
    # beyond NEVER_MS sums with a clock would overflow, and each event be a session of its own
    rows = chosen.where("client is not null and timeout_ms > 0").collect()
    return {row.client: min(row.timeout_ms, NEVER_MS) for row in rows}
