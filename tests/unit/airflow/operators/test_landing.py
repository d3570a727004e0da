"""When it is news that sessions have landed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer_airflow import assets
from sessionizer_airflow.assets import ANNOUNCED, SessionsLanded
from sessionizer_airflow.landing import Announcement, find_landing

if TYPE_CHECKING:
    import pytest

    from sessionizer.home.stream_home import StreamHome

START = 1_800_000_000_000


def beat(version: int | None, rows: int | None, uid: str = "one") -> Heartbeat:
    return Heartbeat(
        uid=uid, at=1, started_at=1, phase=Phase.RUNNING, watermark_ms=77, sessions_version=version, sessions_rows=rows
    )


def test_first_sessions() -> None:
    found = find_landing(beat(3, 10), None)
    assert found is not None
    assert found.payload == {"delta_version": 3, "rows": 10, "watermark_ms": 77}


def test_only_what_came_since() -> None:
    found = find_landing(beat(9, 25), Announcement(uid="one", version=3, rows=10))
    assert found is not None
    assert found.payload["rows"] == 15
    assert find_landing(beat(9, 25), found.announcement) is None


def test_new_driver_counts_from_nothing() -> None:
    found = find_landing(beat(10, 4, uid="two"), Announcement(uid="one", version=9, rows=25))
    assert found is not None
    assert found.payload["rows"] == 4


def test_no_news() -> None:
    last = Announcement(uid="one", version=3, rows=10)
    assert find_landing(None, None) is None
    assert find_landing(beat(None, None), None) is None
    assert find_landing(beat(0, 0), None) is None
    assert find_landing(beat(4, 10), last) is None, "an optimization of the table brings a version, but no rows"


def test_an_announcement_is_due_an_interval_later_whatever_the_clock_does() -> None:
    told = Announcement(uid="one", version=3, rows=10, at=1_000)
    assert [told.due_in(500, now) for now in (1_000, 1_200, 1_500, 9_000, 0)] == [500, 300, 0, 0, 500]


class Minute:
    """A clock that only sleeping moves, a driver that lands something every two seconds, and a store of state."""

    def __init__(self, home: StreamHome) -> None:
        self.home, self.now, self.kept = home, START, dict[str, Any]()
        self.land()

    def epoch_ms(self) -> int:
        return self.now

    def land(self) -> None:
        batch = (self.now - START) // 2_000
        HEARTBEAT_FILE.of(self.home).write(beat(batch, 10 * (batch + 1)))

    async def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1000)
        self.land()

    async def aget(self, key: str) -> object:
        return self.kept.get(key)

    async def aset(self, key: str, value: object) -> None:
        self.kept[key] = value


def test_events_are_coalesced_also_by_a_triggerer_that_starts_anew(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.prepare()
    clock = Minute(home)
    monkeypatch.setattr(assets, "epoch_ms", clock.epoch_ms)
    monkeypatch.setattr("asyncio.sleep", clock.sleep)
    store: Any = clock
    told: list[tuple[int, dict[str, Any]]] = []

    async def listen(events: int) -> None:
        trigger = SessionsLanded(stream="clicks", platform_home=str(home.root.parents[1]), interval=60_000)
        trigger.asset_state_store = store
        async for event in trigger.run():
            told.append((clock.now - START, event.payload))
            if len(told) == events:
                # As its triggerer would be killed: the next lines still run, the generator does not.
                await clock.aset(ANNOUNCED, announced(event.payload, clock).to_json())
                return

    asyncio.run(listen(3))
    asyncio.run(listen(5))
    assert [at for at, _ in told] == [0, 60_000, 120_000, 180_000, 240_000]
    assert [payload["rows"] for _, payload in told] == [10, 300, 300, 300, 300]
    assert told[-1][1] == {"stream": "clicks", "delta_version": 120, "rows": 300, "watermark_ms": 77}


def announced(payload: dict[str, Any], clock: Minute) -> Announcement:
    version = payload["delta_version"]
    return Announcement(uid="one", version=version, rows=10 * (version + 1), at=clock.now)


def test_what_was_announced_is_kept_with_its_format(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    home.prepare()
    clock = Minute(home)
    monkeypatch.setattr(assets, "epoch_ms", clock.epoch_ms)
    monkeypatch.setattr("asyncio.sleep", clock.sleep)
    store: Any = clock

    async def first_event() -> int:
        trigger = SessionsLanded(stream="clicks", platform_home=str(home.root.parents[1]), interval=60_000)
        trigger.asset_state_store = store
        events = trigger.run()
        first = await anext(events)
        await anext(events)  # the one before is remembered by now
        return int(first.payload["rows"])

    assert asyncio.run(first_event()) == 10
    kept = clock.kept[ANNOUNCED]
    assert kept["format"] == 1
    store.kept[ANNOUNCED] = {**kept, "format": 9, "rows": "of a newer release"}
    assert asyncio.run(first_event()) > 10, "all is told again"
