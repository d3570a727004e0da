"""When it is news that sessions have landed."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow._shared.observability.metrics import stats as core_metrics
from airflow.observability import stats as of_the_triggerer
from airflow.observability.metrics import stats_utils as utils_of_the_triggerer
from airflow.sdk._shared.observability.metrics import stats as sdk_metrics
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.observability import stats as of_a_worker
from airflow.sdk.observability.metrics import stats_utils as utils_of_a_worker

from sessionizer.control.records.driver_records import GAUGES, HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.errors import SparkConnectionMissing
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow import assets
from sessionizer_airflow.assets import ANNOUNCED, Announcement, SessionsLanded, find_landing
from sessionizer_airflow.errors import WIDTH, PersonNeeded, SupervisionEnded, fit_lines, say_what_to_do
from sessionizer_airflow.metrics import COUNTERS, count, gauges, labels, send_gauges
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY, known

START = 1_800_000_000_000


def beat(version: int | None, rows: int | None, uid: str = "one") -> Heartbeat:
    return Heartbeat(
        uid=uid, at=1, started_at=1, phase=Phase.RUNNING, watermark_ms=77, sessions_version=version, sessions_rows=rows
    )


def test_first_sessions() -> None:
    found = known(find_landing(beat(3, 10), None))
    assert found[0] == {"delta_version": 3, "rows": 10, "watermark_ms": 77}


def test_only_what_came_since() -> None:
    found = known(find_landing(beat(9, 25), Announcement(uid="one", version=3, rows=10)))
    payload, announcement = found
    assert payload["rows"] == 15
    assert find_landing(beat(9, 25), announcement) is None


def test_new_driver_counts_from_nothing() -> None:
    found = known(find_landing(beat(10, 4, uid="two"), Announcement(uid="one", version=9, rows=25)))
    assert found[0]["rows"] == 4


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


@pytest.fixture
def clock(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> Minute:
    home.prepare()
    clock = Minute(home)
    monkeypatch.setattr(assets, "epoch_ms", clock.epoch_ms)
    monkeypatch.setattr("asyncio.sleep", clock.sleep)
    return clock


def test_events_are_coalesced_also_by_a_triggerer_that_starts_anew(home: StreamHome, clock: Minute) -> None:
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


def test_what_was_announced_is_kept_with_its_format(home: StreamHome, clock: Minute) -> None:
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


LOG = "/platform/streams/clicks/logs/" + "driver.0123456789ab.log"
ENDED = SupervisionEnded("clicks", "5 failures in a row, the last: driver a failed", f"free space (its log: {LOG})")


def test_what_to_do_is_the_last_line_and_an_error(caplog: pytest.LogCaptureFixture, reviewed: Reviewed) -> None:
    with caplog.at_level(logging.INFO):
        say_what_to_do({"exception": PersonNeeded.wrap(ENDED)})
    *_, reason, remedy = caplog.records
    assert caplog.messages[0] == "::endgroup::", "what follows would be folded away"
    reviewed(reason.getMessage())
    reviewed(remedy.getMessage())
    assert {reason.levelname, remedy.levelname} == {"ERROR"}


def test_the_exception_says_only_what_happened(reviewed: Reviewed) -> None:
    error = PersonNeeded.wrap(SparkConnectionMissing("spark_default"))
    assert isinstance(error, AirflowFailException), "it would be tried again"
    assert "What to do" not in str(error)
    reviewed(error.remedy)


def test_failures_of_others_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    for error in (RuntimeError("no"), "killed", None):
        say_what_to_do({"exception": error})
    assert caplog.messages == []


def test_long_lines_fit_the_screen_and_paths_stay_whole(reviewed: Reviewed) -> None:
    path = "/" + "x" * WIDTH
    text = fit_lines(f"waiting for {path} and {'much else ' * 20}. What to do: mend it")
    lines = text.splitlines()
    assert path in [line.strip() for line in lines]
    reviewed(lines[-1].strip())
    assert all(len(line.strip()) <= WIDTH for line in lines if path not in line)


DOCUMENTATION = REPOSITORY / "docs" / "metrics.md"
LINEAGE = "20261121T105501-3fa9c2"
BEAT = Heartbeat(
    uid="a",
    at=1_790_000_000_123,
    started_at=1,
    phase=Phase.RUNNING,
    lineage=LINEAGE,
    batch_id=3,
    batch_ms=560,
    rows_per_second=1234.5,
    watermark_lag_ms=12_000,
    source_lag=9,
    state_bytes=4096,
    open_keys=17,
    sessions_rows=5,
    late=2,
    quarantined=0,
)


def test_every_gauge_of_a_full_heartbeat() -> None:
    assert gauges(BEAT) == {
        "sessionizer.heartbeat_timestamp_seconds": 1_790_000_000.123,
        "sessionizer.batch_duration_seconds": 0.56,
        "sessionizer.rows_per_second": 1234.5,
        "sessionizer.source_lag_events": 9,
        "sessionizer.watermark_lag_seconds": 12,
        "sessionizer.state_bytes": 4096,
        "sessionizer.open_sessions": 17,
        "sessionizer.sessions_total": 5,
        "sessionizer.late_events_total": 2,
        "sessionizer.quarantined_rows_total": 0,
    }


def test_what_a_heartbeat_does_not_know_is_not_sent() -> None:
    starting = Heartbeat(uid="a", at=1000, started_at=1, phase=Phase.STARTING)
    assert gauges(starting) == {"sessionizer.heartbeat_timestamp_seconds": 1}
    assert labels("clicks", starting) == {"stream": "clicks"}


def test_an_idle_stream_handles_nothing() -> None:
    idle = Heartbeat(uid="a", at=1000, started_at=1, phase=Phase.IDLE, rows_per_second=1234.5, open_keys=17)
    assert gauges(idle) == {
        "sessionizer.heartbeat_timestamp_seconds": 1,
        "sessionizer.rows_per_second": 0.0,
        "sessionizer.open_sessions": 17,
    }


@pytest.mark.parametrize(
    "name", ["health", "health_timestamp_seconds", *GAUGES, *(f"{name}_total" for name in COUNTERS)]
)
def test_the_documentation_has_it(name: str) -> None:
    assert f"| `{name}` |" in DOCUMENTATION.read_text()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A StatsD server's socket, to which Airflow is told to send."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.getsockname()[1]))
        of_the_triggerer.initialize(factory=utils_of_the_triggerer.get_stats_factory(), export_legacy_names=True)
        of_a_worker.initialize(factory=utils_of_a_worker.get_stats_factory(), export_legacy_names=True)
        yield server
        for module in (core_metrics, sdk_metrics):
            module._get_backend().statsd.close()  # Airflow leaves that to the process's end
        monkeypatch.undo()
        of_the_triggerer.initialize(factory=utils_of_the_triggerer.get_stats_factory(), export_legacy_names=True)
        of_a_worker.initialize(factory=utils_of_a_worker.get_stats_factory(), export_legacy_names=True)


def received(listener: socket.socket, number: int) -> set[str]:
    return {listener.recv(2048).decode() for _ in range(number)}


def test_gauges_arrive_with_their_labels(listener: socket.socket) -> None:
    send_gauges("clicks", BEAT)
    expected = gauges(BEAT)
    assert received(listener, len(expected)) == {
        f"airflow.{name},stream=clicks,lineage={LINEAGE}:{value}|g" for name, value in expected.items()
    }


def test_counters_arrive_with_the_lineage_of_the_newest_driver(listener: socket.socket, tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    count(home, COUNTERS[0])
    assert received(listener, 1) == {f"airflow.sessionizer.{COUNTERS[0]}_total,stream=clicks:1|c"}
    HEARTBEAT_FILE.of(home).write(BEAT)
    for name in COUNTERS:
        count(home, name)
    assert received(listener, len(COUNTERS)) == {
        f"airflow.sessionizer.{name}_total,stream=clicks,lineage={LINEAGE}:1|c" for name in COUNTERS
    }
