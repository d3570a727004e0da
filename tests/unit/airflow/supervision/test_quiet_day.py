"""A day on which nothing happens fits on a few screens: simulated watch for watch, on the code that runs in Airflow."""

import asyncio
import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest

from sessionizer.control.lease import acquire
from sessionizer.control.records.driver_records import Phase
from sessionizer.home.clock import MINUTE, epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow import triggers
from sessionizer_airflow.launching.local import LocalLauncher
from sessionizer_airflow.project import Folders
from sessionizer_airflow.supervision import act, health, watch
from sessionizer_airflow.supervision.act import Supervisor
from sessionizer_airflow.supervision.decide import Adopt
from sessionizer_airflow.supervision.policy import SupervisionPolicy, SupervisionSettings
from sessionizer_airflow.supervision.tell import subject
from sessionizer_airflow.triggers import StreamTrigger
from support.expected.driver_statuses import Heard
from support.processes.fabricated_platform import beat

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
    """What a logger is used for here."""

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
    for module in (triggers, watch, health, act):
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
        stream="clicks",
        home=home,
        folders=Folders(home=platform, streams=platform / "specs"),
        launcher=LocalLauncher(lambda _: ["false"]),
        policy=policy,
        say=said,
    )


def one_watch(supervisor_of_a_run: Supervisor, policy: SupervisionPolicy, watch_until: int) -> object:
    """What `SuperviseStream` and its trigger do in one run."""
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
