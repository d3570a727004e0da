"""When the trigger hands the stream to a worker."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from sessionizer.control.clock import epoch_ms
from sessionizer_airflow import triggers
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.triggers import LEAST_WATCH, StreamTrigger

if TYPE_CHECKING:
    import pytest

    from sessionizer.control.stream_home import StreamHome


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
    assert LEAST_WATCH <= now - began < 2 * LEAST_WATCH


def fired_by(home: StreamHome, watch_until: int) -> dict[str, Any]:
    trigger = StreamTrigger(
        stream=home.name,
        platform_home=str(home.root.parents[1]),
        policy=dataclasses.asdict(SupervisionPolicy()),
        watch_until=watch_until,
    )

    async def first() -> dict[str, Any]:
        return {**(await anext(trigger.run())).payload}

    return asyncio.run(first())
