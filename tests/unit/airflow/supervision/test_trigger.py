"""When the trigger hands the stream to a worker."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.control.lease import acquire
from sessionizer.control.records.driver_records import Phase
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow import triggers
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.triggers import LEAST_WATCH_MS, StreamTrigger
from support.processes.fabricated_platform import beat

if TYPE_CHECKING:
    from pathlib import Path


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
    assert LEAST_WATCH_MS <= clock.passed < 2 * LEAST_WATCH_MS


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
