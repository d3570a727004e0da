"""When the trigger hands the stream to a worker."""

import asyncio
import dataclasses
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

from sessionizer.causes.cause import HUNG
from sessionizer.control.lease import acquire
from sessionizer.control.records.driver_records import Phase
from sessionizer.fleet.finding import Finding, HealthWord, Rule, weigh
from sessionizer.home.clock import MINUTE, epoch_ms
from sessionizer.home.names import name_process
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow import triggers
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.project import Folders
from sessionizer_airflow.supervision import act, watch
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Action, Adopt, GiveUp, Launch, Replace, StandBy, Wait
from sessionizer_airflow.supervision.policy import SupervisionPolicy, SupervisionSettings
from sessionizer_airflow.supervision.tell import describe, level_of, subject
from sessionizer_airflow.triggers import LEAST_LOOKS, POLL_SECONDS, StreamTrigger
from support.expected.driver_statuses import Heard
from support.processes.fabricated_platform import beat


class SleptThrough:
    """A clock that goes on while the trigger sleeps, and only then."""

    def __init__(self) -> None:
        self.began = self.now = epoch_ms()

    @property
    def passed(self) -> int:
        return self.now - self.began

    async def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SleptThrough:
    clock = SleptThrough()
    monkeypatch.setattr(triggers, "epoch_ms", lambda: clock.now)
    monkeypatch.setattr("asyncio.sleep", clock.sleep)
    return clock


def test_it_does_not_fire_before_airflow_has_booked_that_the_worker_is_free(
    home: StreamHome, clock: SleptThrough
) -> None:
    assert fired_by(home, watch_until=clock.began)["watch_is_over"] is False, "no driver runs: a worker is called"
    assert clock.passed == (LEAST_LOOKS - 1) * POLL_SECONDS * 1000


def test_a_clock_that_is_set_back_keeps_no_worker_from_a_stream(
    home: StreamHome, clock: SleptThrough, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[int] = []
    monkeypatch.setattr(triggers, "health_now", lambda *_: judged.append(clock.now))
    looks, look_at = itertools.count(1), watch.look_at

    def look(*given: Any) -> watch.Look:
        if next(looks) == 3:
            clock.now -= 60 * MINUTE
        return look_at(*given)

    monkeypatch.setattr(triggers, "look_at", look)
    assert fired_by(home, watch_until=clock.began)["watch_is_over"] is False
    assert next(looks) == LEAST_LOOKS + 1
    assert min(judged) < clock.began, "the health is judged anew"


def fired_by(home: StreamHome, watch_until: int, shown: str | None = None) -> dict[str, Any]:
    trigger = StreamTrigger(
        stream=home.name,
        platform_home=str(home.root.parents[1]),
        policy=dataclasses.asdict(SupervisionPolicy()),
        watch_until=watch_until,
        streams=str(home.platform),
        shown=shown,
    )

    async def first() -> dict[str, Any]:
        return {**(await anext(trigger.run())).payload}

    return asyncio.run(first())


@pytest.mark.parametrize(
    ("phase", "shown", "calls"),
    [
        (Phase.RUNNING, "degraded: orphan", False),
        (Phase.IDLE, "degraded: orphan", False),
        (Phase.RUNNING, "warning: starting", True),
        (Phase.RUNNING, None, False),
    ],
)
def test_a_worker_is_called_when_what_it_has_shown_is_no_longer_so(
    phase: Phase, shown: str | None, tmp_path: Path, clock: SleptThrough, *, calls: bool
) -> None:
    # Of its own: that of the fixture ends whoever has the lease, which here is this process.
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    acquire(home, "driver-1")
    beat(home, batch_id=1, phase=phase)
    assert fired_by(home, watch_until=clock.began + 60_000, shown=shown)["watch_is_over"] is not calls
    assert (clock.passed < 60_000) is calls


@pytest.mark.parametrize(
    ("decision", "level"),
    [
        (Launch("no driver has run yet"), logging.INFO),
        (Adopt("a", "STARTING"), logging.INFO),
        (Adopt("a", "RUNNING"), logging.INFO),
        (Adopt("a", "IDLE"), logging.INFO),
        (Adopt("a", "STOPPING"), logging.INFO),
        (Wait(1, "driver a vanished"), logging.WARNING),
        (Wait(1, "driver a is leaving", orderly=True), logging.INFO),
        (StandBy("desired state is STOPPED"), logging.INFO),
        (GiveUp("no Java", "install it"), logging.ERROR),
    ],
    ids=str,
)
def test_every_decision_has_a_level(decision: Action, level: int) -> None:
    assert level_of(decision) == level


@pytest.mark.parametrize("uid", ["3f2a91", "restore-20261125T200000-abc123"])
@pytest.mark.parametrize("out_of_sight", [False, True])
def test_a_command_is_not_called_a_driver(uid: str, *, out_of_sight: bool) -> None:
    decisions: list[Action] = [
        Adopt(uid, "RUNNING"),
        Replace(uid, "it hangs", HUNG, out_of_sight=out_of_sight),
        StandBy("desired state is STOPPED", stop=uid),
    ]
    assert all(name_process(uid) in describe(each, None, now_ms=0) for each in decisions)


@pytest.mark.parametrize(
    ("word", "rule", "calm", "label"),
    [
        (HealthWord.WARNING, Rule.BACKING_OFF, Rule.STOPPED, "warning: backing off"),
        (HealthWord.DEGRADED, Rule.ROWS_REFUSED, Rule.WORKING, "degraded: rows refused"),
        (HealthWord.HEALTHY, Rule.UPGRADE_WAITS, Rule.WORKING, "healthy: upgrade waits"),
        (None, Rule.WORKING, Rule.WORKING, "healthy"),
        (None, Rule.WORKING, Rule.IDLE, "healthy"),
        (None, Rule.WORKING, Rule.STOPPED, "healthy: stopped"),
    ],
)
def test_the_label_is_the_word_and_its_rule(word: HealthWord | None, rule: Rule, calm: Rule, label: str) -> None:
    finding = Finding(rule, word, "") if word else None
    assert weigh([finding], calm).label == label


DAY = 24 * 60 * MINUTE
POLL = MINUTE
LINES_OF_AIRFLOW = 25
"""What Airflow itself logs about one run of a task that defers once and resumes once, at level INFO."""
LINES_A_DAY = 200


class Day:
    """A clock that only sleeping moves, and a driver that is now busy, now idle."""

    def __init__(self, home: StreamHome) -> None:
        self.home, self.now, self.beats = home, epoch_ms(), 0

    def epoch_ms(self) -> int:
        return self.now

    async def sleep(self, _: float) -> None:
        self.now += POLL
        self.beat()

    def beat(self) -> None:
        self.beats += 1
        busy = self.beats % 3 > 0
        phase = Phase.RUNNING if busy else Phase.IDLE
        beat(self.home, at=self.now, phase=phase, batch_id=self.beats // 2, input_rows=5 * busy, watermark_lag_ms=9_000)


class Log:
    def __init__(self, said: Heard) -> None:
        self._said = said

    def log(self, level: int, pattern: str, *values: object) -> None:
        self._said(pattern % values, level)

    def info(self, pattern: str, *values: object) -> None:
        self.log(logging.INFO, pattern, *values)


def test_a_quiet_day(tmp_path: Path, said: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    home = StreamHome.of(tmp_path / "platform", "clicks")
    home.prepare()
    acquire(home, "driver-1")
    day = Day(home)
    for module in (triggers, watch, act):
        monkeypatch.setattr(module, "epoch_ms", day.epoch_ms)
    monkeypatch.setattr("asyncio.sleep", day.sleep)
    monkeypatch.setattr(StreamTrigger, "log", Log(said))
    settings = SupervisionSettings.from_environment({})
    policy, began, watches = settings.policy, day.now, 0
    day.beat()
    while day.now < began + DAY:
        watches += 1
        assert isinstance(
            one_watch(supervisor_of(home, policy, said), policy, day.now + settings.watch_lease_ms), Adopt
        )
    assert day.beats > DAY // POLL
    assert watches == DAY // settings.watch_lease_ms
    assert not [line for line in said if "watching driver driver-1: working" not in line]
    assert set(said.levels) == {logging.INFO}
    assert len(said) + watches * LINES_OF_AIRFLOW <= LINES_A_DAY, said


def supervisor_of(home: StreamHome, policy: SupervisionPolicy, said: Heard) -> Supervisor:
    platform = home.root.parents[1]
    return Supervisor(
        home=home,
        folders=Folders(home=platform, streams=platform / "specs"),
        launcher=LocalLauncher(lambda _: ["false"]),
        policy=policy,
        say=said,
    )


def one_watch(supervisor_of_a_run: Supervisor, policy: SupervisionPolicy, watch_until: int) -> object:
    supervisor_of_a_run.take_over()
    decision = supervisor_of_a_run.settle()
    assert decision is not None
    trigger = StreamTrigger(
        stream="clicks",
        platform_home=str(supervisor_of_a_run.home.root.parents[1]),
        policy=dataclasses.asdict(policy),
        watch_until=watch_until,
        known=list(subject(decision)),
    )

    async def fired() -> dict[str, Any]:
        async for event in trigger.run():
            payload: dict[str, Any] = event.payload
            return payload
        message = "the trigger ended without firing"
        raise AssertionError(message)

    assert asyncio.run(fired())["watch_is_over"]
    return decision
