"""Streams and savepoints of each release, continued by this one with every open session."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionizer.control.execution import execute
from sessionizer.control.records.operation_record import Ending
from sessionizer.core.wire.rows import REVISION
from sessionizer.deployment.releases import require_release
from sessionizer.deployment.verdicts import STATE
from sessionizer.errors import UnreadableLineage, UpgradeWaits
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.fingerprint import CHECKPOINT_FILE, RELEASE, require_readable_lineage
from sessionizer.spark.query.assembly import group_of
from sessionizer.spark.state.commands.moves import ApplyRunner
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.state.savepoints.listing import complete_savepoint
from sessionizer.stream_spec.effect import Verdict
from sessionizer.stream_spec.spec_folder import SpecFile
from support.places import known
from support.processes.in_process import drain
from support.releases.cut_release import CANONICAL, EXPECTED, NATIVE, RELEASES, sessions_of, unpack_release
from support.streams.changing_stream import records_of
from support.streams.stage import Stage
from support.verbs.begun_restore import approved
from support.verbs.restored_stream import Restored

MORE = "more-"
LEAST_CONTINUED = 5
NOT_LATE_US = 9_000_000
"""The delay of the watermark of the golden streams, and a second."""
FOLDERS = sorted(folder for folder in RELEASES.iterdir() if folder.is_dir())
SAVEPOINTS = [
    # a savepoint of the oldest release is migrated as it is restored. Native ones are copied as a lineage is resumed
    pytest.param(
        release,
        kind,
        id=f"{release.name}-{kind}",
        marks=[] if release == FOLDERS[0] and kind == CANONICAL else [pytest.mark.long],
    )
    for release in FOLDERS
    for kind in (CANONICAL, NATIVE)
]


def feed_open_keys(stage: Stage, release: Path, before: list[list[Any]]) -> list[list[Any]]:
    """Feed one more event of each open session that takes it in time, and return all sessions as they are to be."""
    found = json.loads((release / EXPECTED).read_text())
    newest_us = max(ended for _, _, _, ended, *_ in found)
    more, lines = [], []
    for row in found:
        session_id, key, begun, ended, count, ids = row
        if row in before or ended < newest_us - NOT_LATE_US:
            more.append(row)
            continue
        click = {"event_id": f"{MORE}{key}", "user_id": key, "client": key.partition("-")[0], "ts": ended // 1_000 + 1}
        lines.append(json.dumps(click))
        more.append([session_id, key, begun, ended + 1_000, count + 1, [*ids, click["event_id"]]])
    (stage.feed / "more.json").write_text("\n".join(lines))
    return more


def drain_and_compare(spark: SparkSession, stage: Stage, release: Path, wanted: list[list[Any]]) -> None:
    """Drain the stream. A session that a logout ended takes no more events, and the one that was fed begins another."""
    drain(spark, stage)
    rows = records_of(spark, str(stage.table("sessions")))
    ended = {row["session_id"] for row in rows if row["close_reason"] == "closing_event"}
    first = {row[0]: row for row in json.loads((release / EXPECTED).read_text())}
    wanted = [first[row[0]] if row[0] in ended else row for row in wanted]
    found = [row for row in sessions_of(spark, stage) if not row[-1][0].startswith(MORE)]
    assert found == wanted
    assert sum(row[-1][-1].startswith(MORE) for row in found) > LEAST_CONTINUED


def revision_of(stage: Stage) -> str:
    assert stage.lineage
    kept = known(CHECKPOINT_FILE.of(stage.stream_home, stage.lineage).require())
    return kept.revision


def upgrade(spark: SparkSession, stage: Stage) -> None:
    """Bring the stream to the head as `sessionizer upgrade` does, because a restart takes no other release."""
    home, command = stage.stream_home, Upgrade(canary=0)
    found = ApplyRunner(spark=spark, home=home, command=command, spec=stage.spec(), savepoints=home.savepoints)
    plan, is_of_now = found.look(), revision_of(stage) == REVISION
    judged = {(each.name, each.verdict) for each in plan.decision.differences}
    assert ((RELEASE, Verdict.IN_PLACE) if is_of_now else (STATE, Verdict.MIGRATE)) in judged
    assert execute(approved(found), found).outcome is Ending.DONE


@pytest.mark.parametrize(
    "release",
    [pytest.param(folder, marks=[] if folder == FOLDERS[-1] else pytest.mark.long) for folder in FOLDERS],
    ids=[folder.name for folder in FOLDERS],
)
def test_a_lineage_of_a_release_goes_on(spark: SparkSession, tmp_path: Path, release: Path) -> None:
    stage = unpack_release(release, tmp_path)
    before, lineage = sessions_of(spark, stage), stage.lineage
    is_of_now = revision_of(stage) == REVISION
    if not is_of_now:
        with pytest.raises(UnreadableLineage, match="Run `sessionizer upgrade "):
            require_readable_lineage(stage.stream_home, str(lineage))
    with pytest.raises(UpgradeWaits):
        require_release(stage.stream_home, SpecFile(stage.name, stage.spec()))
    upgrade(spark, stage)
    require_release(stage.stream_home, SpecFile(stage.name, stage.spec()))
    assert (stage.lineage == lineage, revision_of(stage)) == (is_of_now, REVISION)
    drain_and_compare(spark, stage, release, feed_open_keys(stage, release, before))


@pytest.mark.parametrize(("release", "kind"), SAVEPOINTS)
def test_a_savepoint_of_a_release_is_restored(spark: SparkSession, tmp_path: Path, release: Path, kind: str) -> None:
    stage = unpack_release(release, tmp_path, kind)
    before, sessions = stage.lineage, sessions_of(spark, stage)
    assert before
    found = complete_savepoint(stage.stream_home.savepoints, kind, epoch_ms())
    Restored(spark, stage, {}, before, *found).restore()
    assert stage.lineage != before
    drain_and_compare(spark, stage, release, feed_open_keys(stage, release, sessions))


GROUPS = {
    "": [0, 0, 4, 652, 57687],
    "u1": [0, 3, 15, 287, 26142],
    "acme-000002": [0, 3, 3, 771, 58806],
    "é": [0, 0, 4, 100, 46990],
    "日本語": [0, 1, 9, 761, 27096],
    "a\x00b": [0, 2, 2, 242, 30747],
    " ": [0, 0, 8, 896, 751],
    "x" * 31: [0, 2, 14, 254, 12979],
    "x" * 32: [0, 0, 8, 824, 17224],
    "k" * 10_000: [0, 1, 1, 25, 8650],
}
"""Groups of keys, of 1, 4, 16, 1000 and 65535. Open events stay in theirs, so another hash is another revision."""


def test_a_key_stays_in_its_group(spark: SparkSession) -> None:
    keys = spark.createDataFrame([(key,) for key in GROUPS], "key string")
    rows = keys.select("key", *(group_of(F.col("key"), count) for count in (1, 4, 16, 1_000, 65_535))).collect()
    assert {key: groups for key, *groups in rows} == GROUPS
