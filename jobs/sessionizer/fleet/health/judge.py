"""The judgement of a stream by all rules, and those on disk, canary and savepoints. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.control.records.desired_state import DesiredState
from sessionizer.fleet.health.driver_rules import describe_calm, judge_driver
from sessionizer.fleet.health.flow_rules import (
    judge_progress,
    judge_silence,
    judge_source,
    judge_straggler,
    judge_watermark,
)
from sessionizer.fleet.health.supervision_rules import judge_asset, judge_supervision
from sessionizer.fleet.health.verdict import HealthWord, Part, StreamHealth, UnhealthyPart, weigh
from sessionizer.home.clock import MINUTE, describe_duration
from sessionizer.home.local_files import LEAST_ROOM
from sessionizer.lineage.canary.judge import CanaryOutcome

if TYPE_CHECKING:
    from sessionizer.fleet.health.facts import HealthFacts

LOW_ROOM: Final = 512 * 2**20
"""Bytes of free disk below which a stream is degraded."""
OVERDUE_FACTOR: Final = 2
"""A savepoint is overdue after this many of its intervals, and ``OVERDUE_SLACK_MS``."""
OVERDUE_SLACK_MS: Final = 10 * MINUTE


def judge_health(facts: HealthFacts) -> StreamHealth:
    """Judge a stream by every rule. Any facts, however contradictory, have a verdict. Never raises."""
    rules = (
        judge_supervision,
        judge_driver,
        judge_disk,
        judge_canary,
        judge_progress,
        judge_straggler,
        judge_silence,
        judge_watermark,
        judge_source,
        judge_savepoints,
        judge_upgrade,
        lambda facts: judge_asset(facts.name, facts.taken_asset),
    )
    return weigh((rule(facts) for rule in rules), describe_calm(facts))


def judge_disk(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge the room on the disks that can be seen from here."""
    free = facts.free_bytes
    if free is None or free >= LOW_ROOM:
        return None
    is_full = free < LEAST_ROOM
    return UnhealthyPart(
        part=Part.DISK,
        word=HealthWord.DOWN if is_full else HealthWord.DEGRADED,
        rule="disk_full" if is_full else "disk_low",
        what=f"{free // 2**20:,} MiB are left on the disk of {facts.disk}",
        what_to_do="free some space, or move the home or the data root to a larger disk",
    )


def judge_canary(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge a lineage that is a canary. One that the next driver leaves on its own is no matter for a user.

    A drained lineage makes no more batches, so its canary never ends.
    """
    canary = facts.canary
    if facts.is_drained or canary is None or canary.outcome in {CanaryOutcome.PASSED, CanaryOutcome.PROMOTED}:
        return None
    failed = canary.outcome is CanaryOutcome.FAILED
    what, _, remedy = (facts.canary_line or "").partition(" → ")
    since = canary.course.decided_at if failed else canary.course.begun_at
    return UnhealthyPart(
        part=Part.CANARY,
        word=HealthWord.DEGRADED if failed and not canary.goes_back else HealthWord.WARNING,
        rule="canary_failed" if failed else "canary",
        what=what or f"lineage {canary.lineage} is a canary",
        since=since,
        what_to_do=remedy if failed else "",
    )


def judge_savepoints(facts: HealthFacts) -> UnhealthyPart | None:
    """Judge whether scheduled savepoints are made, while batches come."""
    every, last = facts.save_every_ms, facts.saved_at or facts.history_since
    if every is None or last is None or not any(sample.rows for sample in facts.samples):
        return None
    age = facts.now - last
    if age <= OVERDUE_FACTOR * every + OVERDUE_SLACK_MS:
        return None
    return UnhealthyPart(
        part=Part.SAVEPOINTS,
        word=HealthWord.DEGRADED,
        rule="savepoint_overdue",
        what=f"no savepoint for {describe_duration(age)}, though one is due every {describe_duration(every)}",
        since=last + every,
        what_to_do="see the runs of sessionizer.savepoints in Airflow, or "
        f"`sessionizer savepoint create {facts.name} --why overdue`",
    )


def judge_upgrade(facts: HealthFacts) -> UnhealthyPart | None:
    """Note an upgrade that waits. The stream is healthy meanwhile.

    None waits while a command has the stream, which may be that upgrade, and for a stream that a user has stopped.
    """
    is_wanted = facts.seen is not None and facts.seen.desired.state is DesiredState.RUNNING
    if facts.waiting is None or facts.unfinished is not None or not is_wanted:
        return None
    return UnhealthyPart(
        part=Part.UPGRADE,
        word=HealthWord.HEALTHY,
        rule="upgrade_waits",
        what=facts.waiting.counted,
        what_to_do=facts.waiting_line or "",
    )
