"""Whether a lineage can go on by a spec that was changed (docs/adr/0043).

Most changes hold from the next batch on. Two would lose events: another number of key groups, as the state of a key
stays where it was; and other rules for a batch that was cut short after it had written, as Delta skips what a table has
while the state follows the new rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.control.lineage_spec import read_lineage_spec, write_lineage_spec
from sessionizer.errors import InvalidSpec
from sessionizer.spark.delta_append import last_version
from sessionizer.spec.decisions import KEY_GROUPS, changed_fields, decisions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.control.stream_home import StreamHome
    from sessionizer.spec.decisions import Decisions
    from sessionizer.spec.stream import StreamSpec


def continue_lineage(
    spark: SparkSession, spec: StreamSpec, home: StreamHome, lineage: str, tables: Iterable[str]
) -> None:
    """Take note that ``lineage`` goes on by ``spec``; ``tables`` are the locations that it writes, all of them there.

    Raises InvalidSpec, naming the field, if it cannot, and DamagedFile if what it went by so far is lost.
    """
    before, now = read_lineage_spec(home, lineage), decisions_of(spec)
    changed = [] if before is None else changed_fields(before, now)
    checkpoint = home.checkpoint(lineage)
    if before is not None and changed and _newest(checkpoint / "offsets") is not None:
        _require_same_groups(before, now)
        _require_whole(changed[0], before, now, half_written_batch(spark, checkpoint, lineage, tables))
    if before is None or changed:
        write_lineage_spec(home, lineage, now)


def _require_same_groups(before: Mapping[str, object], now: Decisions) -> None:
    if before.get(KEY_GROUPS) != now[KEY_GROUPS]:
        allowed = f"{before.get(KEY_GROUPS)}, by which the state of this stream is divided"
        raise InvalidSpec(KEY_GROUPS, now[KEY_GROUPS], allowed)


def _require_whole(field: str, before: Mapping[str, object], now: Decisions, half: int | None) -> None:
    if half is not None:
        until = f"until a driver that has it again finished batch {half}, of which the tables have rows already"
        raise InvalidSpec(field, now.get(field), f"{before.get(field)!r} {until}")


def half_written_batch(spark: SparkSession, checkpoint: Path, lineage: str, tables: Iterable[str]) -> int | None:
    """The batch that a table has rows of and the checkpoint no commit. None if there is no such batch."""
    begun = _newest(checkpoint / "offsets")
    if begun is None or begun == _newest(checkpoint / "commits"):
        return None
    return begun if any(last_version(spark, table, lineage) >= begun for table in tables) else None


def _newest(log: Path) -> int | None:
    """The highest number of a log of Spark's."""
    names = (file.name for file in log.iterdir()) if log.is_dir() else ()
    return max((int(name) for name in names if name.isdecimal()), default=None)
