"""Verdicts on the programs that a stream runs by: our release, Python, Spark, Delta, Java, and pinned settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.names import PARTITIONS
from sessionizer.deployment.verdicts.verdict import Difference
from sessionizer.lineage.fingerprint import DELTA, ENGINE, JAVA, PYTHON, RELEASE, SPARK, release_line
from sessionizer.stream_spec.effect import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.deployment.verdicts.verdict import Side

CODE: Final = "code"
STATE: Final = "state"
SETTING: Final = "setting "
_NAMED: Final = {SPARK: "Spark", DELTA: "Delta", PYTHON: "Python", JAVA: "Java", "pyarrow": "pyarrow"}
_STATE_STORE: Final = "spark.sql.streaming.stateStore."
PINNED: Final = frozenset(
    {
        PARTITIONS,
        "spark.sql.streaming.internal.stateStore.partitions",
        f"{_STATE_STORE}providerClass",
        f"{_STATE_STORE}encodingFormat",
        f"{_STATE_STORE}compression.codec",
        f"{_STATE_STORE}rocksdb.formatVersion",
        f"{_STATE_STORE}rocksdb.mergeOperatorVersion",
        f"{_STATE_STORE}rowChecksum.enabled",
        "spark.sql.streaming.join.stateFormatVersion",
        "spark.sql.streaming.aggregation.stateFormatVersion",
        "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
        "spark.sql.streaming.multipleWatermarkPolicy",
        "spark.sql.streaming.statefulOperator.useStrictDistribution",
        "spark.sql.streaming.queryEvolution.enableSourceEvolution",
        "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
        "spark.sql.function.protobufExtensions.enabled",
    }
)
"""Settings that Spark 4.2 pins in a checkpoint, as this release knows them."""


def engine_differences(before: Side, now: Side, revisions: frozenset[str] = frozenset()) -> Iterator[Difference]:
    """Yield a difference for each program, for our code and for the state's layout.

    ``revisions``: layouts that this release can bring to its own.
    """
    yield from _state(before, now, revisions)
    yield from _release(before, now)
    kept, present = before.fingerprint.versions, now.fingerprint.versions
    for name in _NAMED:
        if name in kept and name in present and kept[name] != present[name]:
            yield _program(name, kept[name], present[name])
    yield from _settings(before.fingerprint.configuration, now.fingerprint.configuration)


def _program(name: str, kept: str, now: str) -> Difference:
    same_line = release_line(kept) == release_line(now)
    kind = f"{_NAMED[name]} {'patch' if same_line else 'line'} changed"
    if name not in ENGINE:
        reason = "open events are Arrow data, which any version reads"
        return Difference(name, kind, kept, now, Verdict.IN_PLACE, reason)
    if same_line:
        reason = "releases of one line continue with the same checkpoint, in any order"
        return Difference(name, kind, kept, now, Verdict.IN_PLACE, reason)
    reason = f"a checkpoint of {name} {release_line(kept)} was never tested with {release_line(now)}"
    remedy = "If you accept it, a new lineage gets the open sessions. The old one stays for the old version"
    return Difference(name, kind, kept, now, Verdict.UNKNOWN, reason, remedy)


def _release(before: Side, now: Side) -> Iterator[Difference]:
    kept, present = (side.fingerprint.versions.get(RELEASE) for side in (before, now))
    if kept != present and kept is not None and present is not None:
        kind = "release newer" if _numbers(present) > _numbers(kept) else "release older"
        yield Difference(RELEASE, kind, kept, present, Verdict.IN_PLACE, "the layout of the state decides")
    was, is_ = before.fingerprint.code, now.fingerprint.code
    if was and is_ and was != is_:
        reason = "the new code divides earlier events into sessions, too"
        remedy = "To compare what both codes make of the same batches: `sessionizer prove …`"
        yield Difference(CODE, "deciding code changed", was[:12], is_[:12], Verdict.IN_PLACE, reason, remedy)


def _state(before: Side, now: Side, revisions: frozenset[str]) -> Iterator[Difference]:
    kept, present = (f"{side.checkpoint_format}/{side.revision}" for side in (before, now))
    if kept == present:
        return
    kind = "layout of the state changed"
    if before.checkpoint_format == now.checkpoint_format and before.revision in revisions:
        reason = "released revisions bring the open events to the layout of this release"
        yield Difference(STATE, kind, kept, present, Verdict.MIGRATE, reason)
        return
    made_by = before.fingerprint.versions.get(RELEASE)
    release = f"release {made_by}" if made_by else "the release that made it"
    remedy = f"With {release}, make a canonical savepoint (`sessionizer savepoint create … --stop`) and restore it here"
    yield Difference(STATE, kind, kept, present, Verdict.INCOMPATIBLE, "this release cannot read it", remedy)


def _settings(kept: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[Difference]:
    """Judge settings that are pinned and wanted otherwise now. The others stay as they are."""
    for name in sorted({*kept, *wanted}):
        was, is_ = kept.get(name), wanted.get(name)
        if name not in PINNED and was is not None:
            reason = "the checkpoint pins a setting that this release does not know"
            yield Difference(f"{SETTING}{name}", "unknown setting", was, is_, Verdict.UNKNOWN, reason)
        elif name == PARTITIONS and was and is_ and was != is_:
            reason = "the state is divided anew, in a new lineage"
            remedy = f"Or run `sessionizer rescale … --partitions {is_}`"
            yield Difference(f"{SETTING}{name}", "partitions changed", was, is_, Verdict.MIGRATE, reason, remedy)
        elif was and is_ and was != is_:
            reason = "the checkpoint keeps its own until the next new lineage"
            yield Difference(f"{SETTING}{name}", "pinned setting changed", was, is_, Verdict.NONE, reason)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
