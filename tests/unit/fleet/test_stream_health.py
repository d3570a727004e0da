"""The word of a stream: one row for each situation, with its word, its part and its rule."""

from dataclasses import replace
from typing import Any

import pytest

from sessionizer.control.history.sample import SAMPLE_MS, Sample, Straggler, StragglerKind
from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.records.erasure_record import ErasureRecord
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, LaunchRecord, LeaseRecord
from sessionizer.control.records.supervision_records import Desired, DesiredState, SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus, judge_status
from sessionizer.control.status.unfinished_operation import UnfinishedOperation
from sessionizer.deployment.waiting import WaitingUpgrade
from sessionizer.errors import ControlUnreachable, DamagedFile, InvalidSpec
from sessionizer.fleet.finding import SEVERITY, Action, Finding, HealthWord, Part, Rule, weigh
from sessionizer.fleet.judge import LOW_ROOM, judge_health
from sessionizer.fleet.stream_view import StreamView
from sessionizer.home.clock import MINUTE
from sessionizer.lineage.active import Lineage
from sessionizer.lineage.canary.canary_record import NOTHING, CanaryRecord
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from support.expected.driver_statuses import judged_stream

NOW = 1_790_000_000_000
LONG_AGO = NOW - 20 * MINUTE
LEASE = LeaseRecord(7, NOW - 60 * MINUTE, "a", 11, 11, "worker-3")
BEAT = Heartbeat(
    "a", NOW - 1_000, NOW - 60 * MINUTE, Phase.RUNNING, batch_id=40, input_rows=100, progress_at=NOW - 1_000
)
WANTED = Desired(DesiredState.RUNNING, NOW - 90 * MINUTE, "olga")
STOP = Desired(DesiredState.STOPPED, NOW - 30 * MINUTE, "olga")
MAINTENANCE = Desired(DesiredState.MAINTENANCE, NOW - 30 * MINUTE, "olga", "restore")
FAILED = ExitRecord("a", NOW - 20_000, ExitOutcome.FAILED, error_type="memory", message="heap")
ENDED = ExitRecord("a", NOW - 20_000, ExitOutcome.STOPPED)
WORKING = DriverStatus(desired=WANTED, lease=LEASE, alive=True, heartbeat=BEAT)
LAUNCHED = replace(WORKING, launch=LaunchRecord(uid="a", at=NOW - 61 * MINUTE, log="logs/a.log"))
DEAD = replace(WORKING, alive=False, exit_record=FAILED)
SUPERVISED = SupervisionRecord()
BACKING_OFF = SupervisionRecord(failures=2, last_failure="heap", last_failure_ms=NOW - 9_000, restart_at=NOW + 9_000)
WAITING = replace(BACKING_OFF, waiting_since=NOW - 8 * MINUTE, attempts=3, cause="unreachable")
GIVEN_UP = replace(BACKING_OFF, given_up=True, restart_at=0)
COMMAND = UnfinishedOperation(
    key="o", title="restore", process="pid 7", is_at_work=True, last_sign_ms=NOW - 1_000, go_on="run it again"
)
BROKEN = InvalidSpec("mapping.key", "user", "an expression over u")
CANARY = CanaryRecord(
    verb="rescale", owner="o", begun_at=NOW - MINUTE, terms=CanaryTerms(), baseline=NOTHING, lineage="b"
)

ERASURE = ErasureRecord(
    operation="e", approval="d", column="key", approved_at=NOW - MINUTE, until=NOW, digests="", secret=""
)


def facts(reading: DriverStatus | None = WORKING, **more: Any) -> StreamView:
    return judged_stream(reading and judge_status(reading, NOW), NOW, **more)


def samples(minutes: int = 12, **rows: Any) -> tuple[Sample, ...]:
    """One for each of the last minutes: a callable figure takes the number of the minute."""

    def figure(name: str, minute: int) -> Any:
        return rows[name](minute) if callable(rows[name]) else rows[name]

    start = NOW - minutes * SAMPLE_MS
    return tuple(
        Sample(at=start + minute * SAMPLE_MS, batches=6, **{name: figure(name, minute) for name in rows})
        for minute in range(minutes)
    )


def lagging(lag_ms: int, **beat: Any) -> DriverStatus:
    return replace(WORKING, heartbeat=replace(BEAT, watermark_lag_ms=lag_ms, watermark_ms=NOW - lag_ms, **beat))


def held_up(kind: StragglerKind, name: str, ms: int) -> DriverStatus:
    straggler = Straggler(kind=kind, name=name, since=NOW - ms, batches=3, took_ms=9_000, batch_ms=10_000)
    return replace(WORKING, heartbeat=replace(BEAT, straggler=straggler))


def silent(ms: int, **beat: Any) -> DriverStatus:
    return replace(WORKING, heartbeat=replace(BEAT, at=NOW - ms, progress_at=NOW - ms, **beat))


IDLE = replace(WORKING, heartbeat=replace(BEAT, phase=Phase.IDLE, watermark_lag_ms=9 * 60 * MINUTE))
SITUATIONS: dict[str, tuple[StreamView, str, str, str | None]] = {
    # healthy
    "it works": (facts(), "healthy", "working", None),
    "its source is quiet": (facts(IDLE), "healthy", "idle", None),
    "quiet for hours, with a lag in its last beat": (
        facts(IDLE, samples=samples(rows=0, lag_ms=9 * 60 * MINUTE)), "healthy", "idle", None),
    "stopped as wanted": (facts(replace(DEAD, desired=STOP, exit_record=ENDED)), "healthy", "stopped", None),
    "failed, and wanted no more": (facts(replace(DEAD, desired=STOP)), "healthy", "stopped", None),
    "run by hand to its end": (
        facts(replace(DEAD, desired=Desired(DesiredState.RUNNING), exit_record=ENDED)), "healthy", "stopped", None),
    "drained": (facts(replace(DEAD, exit_record=ENDED), is_drained=True), "healthy", "drained", None),
    "drained, and another driver was refused": (
        facts(replace(DEAD, exit_record=ENDED), supervision=GIVEN_UP, is_drained=True), "healthy", "drained", None),
    "drained, with a canary": (facts(DEAD, is_drained=True, canary=CANARY), "healthy", "drained", None),
    "a quiet hour without a savepoint": (
        facts(IDLE, spec={"savepoints": {"every": "1 hour"}}, saved_at=NOW - 900 * MINUTE, samples=samples(rows=0)),
        "healthy", "idle", None),
    "a newer driver than the one that was given up": (facts(supervision=GIVEN_UP), "healthy", "working", None),
    "far behind by its spec": (
        facts(lagging(60 * MINUTE), spec={"rules": {"watermark_delay": "50 minutes"}}), "healthy", "working", None),
    "a canary passed": (
        facts(canary=replace(CANARY, outcome=CanaryOutcome.PASSED)),
        "healthy", "working", None),
    "plenty of room": (facts(free_bytes=LOW_ROOM), "healthy", "working", None),
    "a savepoint was made in time": (
        facts(spec={"savepoints": {"every": "1 hour"}}, saved_at=NOW - 70 * MINUTE, samples=samples(rows=9)),
        "healthy", "working", None),
    "some rows refused": (facts(samples=samples(rows=1_000, refused=9)), "healthy", "working", None),
    "run by hand beside a paused supervisor": (facts(paused=True), "healthy", "working", None),
    "stopped, and its supervisor is paused": (
        facts(replace(DEAD, desired=STOP), paused=True), "healthy", "stopped", None),
    "looked at lately": (facts(LAUNCHED, looked_at=NOW - MINUTE), "healthy", "working", None),
    # warning: mends itself
    "it starts": (
        facts(replace(WORKING, heartbeat=replace(BEAT, phase=Phase.STARTING))),
        "warning", "starting", "driver"),
    "it stops and another follows": (facts(replace(WORKING, stop_requested=True)), "warning", "restarting", "driver"),
    "it stops as wanted": (facts(replace(WORKING, desired=STOP, stop_requested=True)), "warning", "stopping", "driver"),
    "files are swept": (facts(unswept=(ERASURE,)), "warning", "unswept", "supervision"),
    "backing off": (facts(DEAD, supervision=BACKING_OFF), "warning", "backing_off", "driver"),
    "waiting for a broker": (facts(DEAD, supervision=WAITING), "warning", "waiting", "driver"),
    "never started, because a mount is away": (
        facts(DriverStatus(), supervision=WAITING), "warning", "waiting", "driver"),
    "tried for the first time again": (
        facts(DriverStatus(), supervision=replace(WAITING, restart_at=NOW - 9_000)), "warning", "restarting", "driver"),
    "just died, and is supervised": (facts(DEAD, supervision=SUPERVISED), "warning", "restarting", "driver"),
    "just ended by hand, and Airflow starts another": (
        facts(replace(LAUNCHED, desired=Desired(DesiredState.RUNNING), alive=False, exit_record=ENDED)),
        "warning", "restarting", "driver"),
    "a command just ended, and a supervisor looks": (
        facts(replace(DEAD, exit_record=ENDED), looked_at=NOW - MINUTE), "warning", "restarting", "driver"),
    "it drains": (facts(draining_since=NOW - 9_000), "warning", "draining", "driver"),
    "it drains by hand, while its desired state is stopped": (
        facts(replace(WORKING, desired=STOP), draining_since=NOW - 9_000), "warning", "draining", "driver"),
    "it was to drain and died": (facts(DEAD, draining_since=NOW - 9_000), "down", "no_driver", "driver"),
    "a command works": (
        facts(replace(DEAD, desired=MAINTENANCE), unfinished=COMMAND),
        "warning", "command", "supervision"),
    "a failed canary that the next driver leaves": (
        facts(
            canary=replace(CANARY, terms=CanaryTerms(goes_back=True), before="a", outcome=CanaryOutcome.FAILED)
        ),
        "warning", "canary_failed", "canary"),
    "a canary": (facts(canary=CANARY), "warning", "canary", "canary"),
    "it catches up": (
        facts(lagging(40 * MINUTE), samples=samples(rows=9, batch_ms=55_000, lag_ms=lambda n: (60 - n) * MINUTE)),
        "warning", "catching_up", "progress"),
    "old events": (
        facts(lagging(40 * MINUTE), samples=samples(rows=9, batch_ms=5_000, lag_ms=40 * MINUTE)),
        "warning", "old_events", "source"),
    "its driver warns": (
        facts(replace(WORKING, heartbeat=replace(BEAT, warning="a file is unreadable"))),
        "warning", "driver_warns", "driver"),
    "held up by a key group": (
        facts(held_up(StragglerKind.KEY_GROUP, "7", MINUTE)), "warning", "straggler", "progress"),
    # unknown
    "never unpaused, and not wanted by a user": (
        facts(DriverStatus(), paused=True), "unknown", "never_started", "driver"),
    "no driver ever": (facts(DriverStatus()), "unknown", "never_started", "driver"),
    "control away": (facts(None, problem=ControlUnreachable("/c", "it is away")), "unknown", "unreadable", "driver"),
    "a damaged record": (
        facts(replace(WORKING, damage=("lease.json: not JSON",))),
        "unknown", "damaged_record", "driver"),
    "a lost record": (
        facts(damages=(DamagedFile("lineage.json", "it is gone"),)), "unknown", "damaged_record", "driver"),
    # degraded
    "silent": (facts(silent(10 * MINUTE)), "degraded", "silent", "driver"),
    "no start": (
        facts(replace(WORKING, heartbeat=replace(BEAT, phase=Phase.STARTING, progress_at=NOW - 20 * MINUTE))),
        "degraded", "silent", "driver"),
    "no progress": (
        facts(replace(WORKING, heartbeat=replace(BEAT, progress_at=NOW - 20 * MINUTE))),
        "degraded", "no_progress", "progress"),
    "no work for long, though it beats": (
        facts(replace(WORKING, desired=replace(WANTED, at=1), heartbeat=replace(BEAT, phase=Phase.STARTING)),
              worked_at=LONG_AGO),
        "degraded", "stale", "progress"),
    "it runs on though unwanted": (facts(replace(WORKING, desired=STOP)), "degraded", "not_stopped", "driver"),
    "falls behind a topic": (
        facts(samples=samples(rows=600, batch_ms=59_000, source_lag=lambda n: 2_000 + 900 * n)),
        "degraded", "falling_behind", "progress"),
    "falls behind, by its watermark": (
        facts(lagging(40 * MINUTE), samples=samples(rows=9, batch_ms=59_000, lag_ms=lambda n: (29 + n) * MINUTE)),
        "degraded", "falling_behind", "progress"),
    "far behind, without a history": (facts(lagging(40 * MINUTE)), "degraded", "lagging", "progress"),
    "watermark halted": (
        facts(samples=samples(rows=9, watermark_ms=NOW - MINUTE, batch_ms=900)),
        "degraded", "watermark_halted", "watermark"),
    "poison rows": (facts(samples=samples(rows=1_000, refused=300)), "degraded", "rows_refused", "source"),
    "late rows": (facts(samples=samples(rows=1_000, late=600)), "degraded", "rows_late", "source"),
    "a backlog out of order": (facts(late_backlog="69 of 96 came late"), "degraded", "late_backlog", "source"),
    "a small disk": (facts(free_bytes=LOW_ROOM - 1), "degraded", "disk_low", "disk"),
    "a canary failed": (
        facts(canary=replace(CANARY, outcome=CanaryOutcome.FAILED)),
        "degraded", "canary_failed", "canary"),
    "a savepoint is overdue": (
        facts(spec={"savepoints": {"every": "1 hour"}}, saved_at=NOW - 140 * MINUTE, samples=samples(rows=9)),
        "degraded", "savepoint_overdue", "savepoints"),
    "no savepoint since the history began": (
        facts(spec={"savepoints": {"every": "1 hour"}}, history_since=NOW - 140 * MINUTE, samples=samples(rows=9)),
        "degraded", "savepoint_overdue", "savepoints"),
    "a broken spec": (facts(problem=BROKEN), "degraded", "invalid_spec", "supervision"),
    "an orphan": (facts(specified=False), "degraded", "orphan", "supervision"),
    "an upgrade waits": (
        facts(waiting=WaitingUpgrade(stream="visits", digest="d1")),
        "healthy", "upgrade_waits", "upgrade"),
    "a sweep was killed": (
        facts(unswept=(replace(ERASURE, approved_at=NOW - 61 * MINUTE),)),
        "degraded", "unswept", "supervision"),
    "its supervisor is paused": (facts(LAUNCHED, paused=True), "degraded", "paused", "supervision"),
    "another DAG has its asset": (facts(taken="visits.sessions"), "degraded", "asset_taken", "supervision"),
    "no supervisor looks": (
        facts(LAUNCHED, looked_at=NOW - 9 * MINUTE), "degraded", "unwatched", "supervision"),
    "held up by a key for long": (
        facts(held_up(StragglerKind.KEY, "bot", 6 * MINUTE)), "degraded", "straggler", "progress"),
    # down
    "dead, and its supervisor is paused": (
        facts(replace(LAUNCHED, alive=False), paused=True), "down", "paused", "supervision"),
    "dead, and no supervisor looks": (
        facts(replace(LAUNCHED, alive=False), looked_at=NOW - 9 * MINUTE, supervision=SUPERVISED),
        "down", "unwatched", "supervision"),
    "wanted, never begun, and paused": (
        facts(DriverStatus(desired=WANTED), paused=True), "down", "paused", "supervision"),
    "dead, by hand": (facts(DEAD), "down", "no_driver", "driver"),
    "dead, and a broken spec has no DAG that starts another": (
        facts(DEAD, supervision=BACKING_OFF, problem=BROKEN), "down", "no_driver", "driver"),
    "dead for long, supervised": (
        facts(replace(DEAD, exit_record=replace(FAILED, at=NOW - 9 * MINUTE)), supervision=SUPERVISED),
        "down", "no_driver", "driver"),
    "vanished": (facts(replace(WORKING, alive=False)), "down", "no_driver", "driver"),
    "given up": (facts(DEAD, supervision=GIVEN_UP), "down", "given_up", "supervision"),
    "a stuck command": (
        facts(replace(DEAD, desired=MAINTENANCE), unfinished=replace(COMMAND, is_at_work=False, last_sign_ms=LONG_AGO)),
        "down", "stuck_command", "supervision"),
    "a command was left, and its stream given up": (
        facts(DEAD, supervision=GIVEN_UP, unfinished=replace(COMMAND, is_at_work=False)),
        "down", "stuck_command", "supervision"),
    "a full disk": (facts(free_bytes=1_000), "down", "disk_full", "disk"),
}  # fmt: skip


@pytest.mark.parametrize("situation", SITUATIONS)
def test_each_situation_has_its_word(situation: str) -> None:
    given, word, rule, part = SITUATIONS[situation]
    health = judge_health(given)
    told = health.to_json()
    assert (told["word"], told["rule"], told["part"]) == (word, rule, part)
    assert (part is None) == (not health.findings)


def test_every_rule_and_part_is_in_the_table() -> None:
    found = {finding.rule.part for given, *_ in SITUATIONS.values() for finding in judge_health(given).findings}
    assert found == set(Part)
    assert {word for _, word, *_ in SITUATIONS.values()} == set(HealthWord)


@pytest.mark.parametrize(
    "situation", [name for name, (_, word, *_) in SITUATIONS.items() if word in {"degraded", "down"}]
)
def test_what_does_not_mend_itself_says_what_is_wrong(situation: str) -> None:
    (worst, *_) = judge_health(SITUATIONS[situation][0]).findings
    assert worst.what
    assert worst.line.startswith(f"{worst.word}: {worst.what}")


RAN = Lineage("b", LONG_AGO, "a", "a")
LOOKS = NOW - MINUTE
KILLED = replace(COMMAND, is_at_work=False)
UPGRADE = WaitingUpgrade(stream="visits", digest="d1")
STATEFUL = "savepoint restore rollback upgrade"
ACTIONS: dict[str, tuple[StreamView, str]] = {
    "at work": (facts(lineage=RAN, looked_at=LOOKS), f"stop {STATEFUL}"),
    "after an erasure": (facts(lineage=Lineage("c", LONG_AGO, "b")), "stop savepoint restore upgrade"),
    "its first lineage": (facts(lineage=Lineage("a", LONG_AGO)), "stop savepoint restore upgrade"),
    "a canary": (facts(lineage=RAN, canary=CANARY), "stop savepoint restore rollback promote upgrade"),
    "stopping": (facts(replace(WORKING, desired=STOP, stop_requested=True), lineage=RAN), f"start {STATEFUL}"),
    "stopped": (facts(replace(DEAD, desired=STOP, exit_record=ENDED), lineage=RAN), f"start {STATEFUL}"),
    "never ran, and never unpaused": (facts(DriverStatus()), "start"),
    "never ran, and its first start is due": (facts(DriverStatus(desired=WANTED), looked_at=LOOKS), "stop"),
    "never ran, and failed": (facts(DriverStatus(desired=WANTED), supervision=GIVEN_UP), "start stop"),
    "restarting": (facts(DEAD, lineage=RAN, looked_at=LOOKS), f"stop {STATEFUL}"),
    "backing off": (facts(DEAD, lineage=RAN, looked_at=LOOKS, supervision=BACKING_OFF), f"stop {STATEFUL}"),
    "given up": (facts(DEAD, lineage=RAN, looked_at=LOOKS, supervision=GIVEN_UP), f"start stop {STATEFUL}"),
    "paused and dead": (facts(replace(LAUNCHED, alive=False), lineage=RAN, paused=True), f"start stop {STATEFUL}"),
    "paused and at work": (facts(LAUNCHED, lineage=RAN, paused=True), f"start stop {STATEFUL}"),
    "at work by hand": (facts(lineage=RAN, paused=True), f"stop {STATEFUL}"),
    "dead, and no supervisor": (facts(DEAD, lineage=RAN), f"start stop {STATEFUL}"),
    "a command at work": (facts(replace(WORKING, desired=MAINTENANCE), lineage=RAN, unfinished=COMMAND), "stop"),
    "a command killed": (facts(replace(DEAD, desired=MAINTENANCE), lineage=RAN, unfinished=KILLED), "stop"),
    "draining": (facts(lineage=RAN, draining_since=NOW - 5_000), f"stop {STATEFUL}"),
    "drained": (facts(DEAD, lineage=RAN, is_drained=True, canary=CANARY, supervision=GIVEN_UP), "restore rollback"),
    "a broken spec": (facts(DEAD, lineage=RAN, problem=BROKEN), STATEFUL),
    "an orphan": (facts(lineage=RAN, specified=False), STATEFUL),
    "control away": (facts(None), ""),
}


@pytest.mark.parametrize("state", ACTIONS)
def test_each_state_takes_its_actions(state: str) -> None:
    given, actions = ACTIONS[state]
    assert given.actions == tuple(map(Action, actions.split()))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_a_user_must_mend_can_be_started_or_is_told(situation: str) -> None:
    """Nobody is left with a stream that is down, and with no button."""
    given, word, *_ = SITUATIONS[situation]
    takes = {*given.actions}
    if word == "down" and given.unfinished is None and given.problem is None and given.free_bytes is None:
        assert {Action.START, Action.STOP} <= takes
    if given.unfinished is not None or given.is_drained:
        assert not takes & {Action.START, Action.SAVEPOINT, Action.PROMOTE, Action.UPGRADE}
    if given.lineage is None:
        assert takes <= {Action.START, Action.STOP, Action.PROMOTE}


def rules_of(given: StreamView) -> set[str]:
    return {finding.rule for finding in judge_health(given).findings}


def test_an_upgrade_waits_only_for_a_stream_that_runs_and_has_no_command() -> None:
    running, stopped = facts(waiting=UPGRADE), facts(replace(DEAD, desired=STOP), waiting=UPGRADE)
    carried_out = facts(replace(DEAD, desired=MAINTENANCE), unfinished=COMMAND, waiting=UPGRADE)
    assert [("upgrade_waits" in rules_of(each)) for each in (running, stopped, carried_out)] == [True, False, False]


def test_no_driver_follows_while_the_supervisor_is_paused() -> None:
    for supervision in (SUPERVISED, BACKING_OFF, WAITING):
        dead = facts(replace(LAUNCHED, alive=False, exit_record=FAILED), supervision=supervision, paused=True)
        assert rules_of(dead) == {"paused"}


def test_a_killed_command_of_airflow_is_tried_again_until_nobody_works_on_it() -> None:
    killed, maintenance = replace(KILLED, is_retried=True), replace(DEAD, desired=MAINTENANCE)
    (soon, *_), (late, *_) = (
        judge_health(facts(maintenance, unfinished=replace(killed, last_sign_ms=at))).findings
        for at in (NOW - MINUTE, LONG_AGO)
    )
    assert (soon.rule, soon.what_to_do) == (Rule.COMMAND, killed.what_to_do)
    assert (late.rule, late.what_to_do) == (Rule.STUCK_COMMAND, killed.go_on)


def test_the_worst_word_goes_first_and_every_finding_stays() -> None:
    both = judge_health(facts(free_bytes=1_000, canary=CANARY, samples=samples(rows=1_000, late=600)))
    assert [finding.word for finding in both.findings] == [HealthWord.DOWN, HealthWord.DEGRADED, HealthWord.WARNING]
    assert both.word is HealthWord.DOWN


def test_severities_grow() -> None:
    assert [SEVERITY[word] for word in HealthWord] == [0, 1, 2, 3, 4]
    first, second = (Finding(rule, HealthWord.DOWN, "") for rule in (Rule.PAUSED, Rule.DISK_FULL))
    assert weigh([None, first, second], Rule.WORKING).rule is Rule.PAUSED, "of equal words the first one counts"


def test_since_when_is_told() -> None:
    assert judge_health(facts(silent(10 * MINUTE))).findings[0].since == NOW - 10 * MINUTE
    assert judge_health(facts(DEAD)).findings[0].since == FAILED.at
    assert judge_health(facts(DEAD, supervision=WAITING)).findings[0].since == WAITING.waiting_since


@pytest.mark.parametrize(("is_at_work", "what_to_do"), [(True, ""), (False, COMMAND.go_on)])
def test_a_command_without_a_process_says_how_to_resume_it(is_at_work: bool, what_to_do: str) -> None:
    seen = replace(DEAD, desired=MAINTENANCE)
    found = judge_health(facts(seen, unfinished=replace(COMMAND, is_at_work=is_at_work))).findings[0]
    assert (found.rule, found.what_to_do) == ("command", what_to_do)
