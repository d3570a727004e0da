"""When the trigger hands the stream to a worker."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.control.lease.lease import acquire
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow import triggers
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.triggers import LEAST_WATCH_MS, StreamTrigger
from support.processes.fabricated_platform import beat

if TYPE_CHECKING:
    from pathlib import Path


def test_it_does_not_fire_before_airflow_has_booked_that_the_worker_is_free(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = now = epoch_ms()

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += int(seconds * 1000)

    monkeypatch.setattr(triggers, "epoch_ms", lambda: now)
    monkeypatch.setattr("asyncio.sleep", sleep)
    assert fired_by(home, watch_until=began)["watch_is_over"] is False, "no driver runs: a worker is called"
    assert LEAST_WATCH_MS <= now - began < 2 * LEAST_WATCH_MS


def fired_by(home: StreamHome, watch_until: int, known: tuple[str, ...] | None = None) -> dict[str, Any]:
    trigger = StreamTrigger(
        stream=home.name,
        platform_home=str(home.root.parents[1]),
        policy=dataclasses.asdict(SupervisionPolicy()),
        watch_until=watch_until,
        known=None if known is None else list(known),
    )

    async def first() -> dict[str, Any]:
        return {**(await anext(trigger.run())).payload}

    return asyncio.run(first())


@pytest.mark.parametrize(
    ("known", "calls"), [(("adopt", "driver-1", "working"), False), (("adopt", "driver-1", "starting"), True)]
)
def test_a_worker_is_called_when_what_it_has_shown_is_no_longer_so(
    known: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, calls: bool
) -> None:
    began = now = epoch_ms()

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += int(seconds * 1000)

    monkeypatch.setattr(triggers, "epoch_ms", lambda: now)
    monkeypatch.setattr("asyncio.sleep", sleep)
    # Of its own: that of the fixture ends whoever has the lease, which here is this process.
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    acquire(home, "driver-1")
    beat(home, batch_id=1)
    assert fired_by(home, watch_until=began + 60_000, known=known)["watch_is_over"] is not calls
    assert (now - began < 60_000) is calls
