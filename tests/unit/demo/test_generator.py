"""The rows of a feed: the same for a seed, and of the kinds and at the rates that were asked for."""

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import islice, pairwise
from random import Random

import pytest

from sessionizer.errors import InvalidSpec
from sessionizer_demo.feed.generator import Row, generate, generate_within
from sessionizer_demo.feed.pacing import StopFlag, Tick, paced, ticks, wait_until
from sessionizer_demo.feed.rows.access_log import ACCESS_LOG_KINDS, write_access_log_line
from sessionizer_demo.feed.rows.click_rows import write_click
from sessionizer_demo.feed.rows.faults import DEFAULT_FAULT_RATES, spoil_event
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.scenario import Bounds, Scenario, start_in_the_past
from sessionizer_demo.feed.traffic.clients import CLIENTS
from sessionizer_demo.feed.traffic.crowd import NEVER_ENDING_USER
from sessionizer_demo.feed.traffic.day_curve import DayCurve
from sessionizer_demo.feed.traffic.events import ClickEvent
from support.places import known

START_MS = 1_750_000_000_000
DELAY_MS = 30_000
FLAT = DayCurve(day_seconds=1200, depth=0)


@cache
def many_rows() -> tuple[Row, ...]:
    """50,000 rows of the default scenario: over eight minutes."""
    return tuple(generate_within(Scenario(start_ms=START_MS), Bounds(events=50_000)))


def rows_of(kind: RowKind) -> list[Row]:
    found = [row for row in many_rows() if row.kind is kind]
    assert found
    return found


@pytest.mark.parametrize("stream", ["clicks", "access_log"])
def test_the_same_seed_gives_the_same_rows(stream: str) -> None:
    scenario = Scenario(start_ms=START_MS, stream=stream, seed=3)
    first, second = (list(generate_within(scenario, Bounds(events=2_000))) for _ in range(2))
    assert first == second


def test_another_seed_or_another_start_gives_other_events() -> None:
    def ids(seed: int, start_ms: int) -> set[str]:
        rows = generate_within(Scenario(start_ms=start_ms, seed=seed), Bounds(events=500))
        return {row.event.event_id for row in rows}

    assert ids(1, START_MS).isdisjoint(ids(2, START_MS))
    assert ids(1, START_MS).isdisjoint(ids(1, START_MS + 1))


def test_rows_are_sent_in_order_from_the_start() -> None:
    moments = [row.at_ms for row in many_rows()]
    assert moments[0] == START_MS
    assert moments == sorted(moments)


@pytest.mark.parametrize("kind", list(DEFAULT_FAULT_RATES))
def test_every_fault_occurs_at_its_rate(kind: RowKind) -> None:
    expected = DEFAULT_FAULT_RATES[kind] * len(many_rows())
    assert len(rows_of(kind)) == pytest.approx(expected, abs=5 * expected**0.5)


def test_without_faults_all_rows_are_normal_and_of_their_moment() -> None:
    rows = list(generate_within(Scenario(start_ms=START_MS, faults={}), Bounds(events=5_000)))
    assert all(row.kind is RowKind.NORMAL and row.event.ts == row.at_ms for row in rows)
    assert len({row.event.event_id for row in rows}) == len(rows)
    scenario = Scenario(start_ms=START_MS, faults={RowKind.TRUNCATED: 1.0}, never_ending_user=False)
    assert {row.kind for row in generate_within(scenario, Bounds(events=100))} == {RowKind.TRUNCATED}


def test_late_rows_are_late_by_as_much_as_their_kind_says() -> None:
    assert all(0 < row.at_ms - row.event.ts < DELAY_MS for row in rows_of(RowKind.LATE_WITHIN))
    assert all(row.at_ms - row.event.ts >= DELAY_MS + 60_000 for row in rows_of(RowKind.LATE_BEYOND))


def test_a_duplicate_repeats_a_recent_event_and_each_event_only_once() -> None:
    normal = {row.event.event_id: row for row in rows_of(RowKind.NORMAL)}
    repeated = Counter(
        row.event.event_id for kind in (RowKind.EXACT_DUPLICATE, RowKind.CONFLICTING_DUPLICATE) for row in rows_of(kind)
    )
    assert set(repeated.values()) == {1}
    for row in rows_of(RowKind.EXACT_DUPLICATE):
        assert row.value == normal[row.event.event_id].value
        assert row.at_ms - row.event.ts <= DELAY_MS / 2
    for row in rows_of(RowKind.CONFLICTING_DUPLICATE):
        assert row.value != normal[row.event.event_id].value
        assert row.event.ts == normal[row.event.event_id].event.ts


@pytest.mark.parametrize("rate", [0.01, 100])
def test_the_never_ending_user_never_pauses_as_long_as_the_timeout(rate: float) -> None:
    scenario = Scenario(start_ms=START_MS, rate=rate)
    rows = generate_within(scenario, Bounds(duration_s=1_000))
    events = [row.event for row in rows if row.event.user_id == NEVER_ENDING_USER]
    assert events[-1].ts > START_MS + 960_000
    assert not any(event.closes for event in events)
    for before, after in pairwise(events):
        assert after.ts - before.ts < known(before.timeout_s) * 1000


def test_users_browse_buy_log_out_and_pause_beyond_the_timeout() -> None:
    timeouts = {client.name: client.timeout_s for client in CLIENTS}
    clicks = defaultdict(list)
    for row in rows_of(RowKind.NORMAL):
        clicks[row.event.user_id].append(row.event)
    gaps = [
        after.ts - before.ts > timeouts[before.client] * 1000
        for events in clicks.values()
        for before, after in pairwise(events)
    ]
    types = Counter(row.event.type for row in rows_of(RowKind.NORMAL))
    assert 0.005 < sum(gaps) / len(gaps) < 0.2
    assert types["page_view"] > types["add_to_cart"] > types["purchase"] > 0 < types["logout"]
    assert all((row.event.amount > 0) == (row.event.type == "purchase") for row in rows_of(RowKind.NORMAL))


def test_clients_have_their_shares_of_the_traffic() -> None:
    rows = Counter(row.event.client for row in many_rows())
    for client in CLIENTS:
        assert rows[client.name] / len(many_rows()) == pytest.approx(client.share, rel=0.2)


def test_the_rate_is_kept_and_follows_the_day() -> None:
    flat = generate_within(Scenario(start_ms=START_MS, rate=50, day=FLAT), Bounds(duration_s=400))
    assert sum(1 for _ in flat) == pytest.approx(20_000, rel=0.05)

    day = Scenario(start_ms=START_MS, rate=50, day=DayCurve(day_seconds=240, depth=0.8))
    hours = Counter((row.at_ms - START_MS) // 10_000 for row in generate_within(day, Bounds(duration_s=240)))
    # the feed begins at nine, so midnight is fifteen hours later
    assert hours[15] < 0.4 * 500 < 500 < hours[0]
    assert hours.total() == pytest.approx(12_000, rel=0.1)


def test_a_feed_played_at_once_ends_by_now() -> None:
    day = DayCurve(day_seconds=300, depth=0.9)
    bounds = Bounds(events=3_000)
    start_ms = start_in_the_past(START_MS, 50 * day.quietest, bounds)
    scenario = Scenario(start_ms=start_ms, rate=50, day=day)
    assert max(row.at_ms for row in generate_within(scenario, bounds)) <= START_MS
    assert start_in_the_past(START_MS, 1, Bounds(duration_s=10)) == START_MS - 10_000


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"stream": "chirps"}, "feed.stream"),
        ({"rate": 0}, "feed.rate"),
        ({"day": DayCurve(day_seconds=0, depth=0)}, "feed.day_seconds"),
        ({"day": DayCurve(day_seconds=1, depth=1)}, "feed.depth"),
        ({"faults": {RowKind.FUTURE: 1.5}}, "feed.faults.future"),
        ({"faults": {RowKind.FUTURE: 0.6, RowKind.NULL_KEY: 0.6}}, "feed.faults"),
    ],
)
def test_an_impossible_scenario_is_refused(change: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        Scenario(start_ms=START_MS, **change)  # type: ignore[arg-type]
    assert refusal.value.field == field


class SteppedClock:
    """Time that passes only in ``sleep``, plus ``drag_ms`` each time somebody looks at it."""

    def __init__(self, now_ms: float = START_MS, drag_ms: float = 0) -> None:
        self._now_ms, self._drag_ms = now_ms, drag_ms
        self.slept_s = 0.0

    def now_ms(self) -> float:
        self._now_ms += self._drag_ms
        return self._now_ms

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self._now_ms += seconds * 1000


def ten_seconds() -> list[Tick]:
    rows = generate_within(Scenario(start_ms=START_MS, rate=50), Bounds(duration_s=10))
    return list(ticks(rows, START_MS, 1000))


def test_a_tick_holds_the_rows_of_its_second_and_none_is_lost() -> None:
    beats = ten_seconds()
    assert [tick.number for tick in beats] == list(range(10))
    for tick in beats:
        assert all(tick.ends_ms - 1000 <= row.at_ms < tick.ends_ms for row in tick.rows)
    scenario = Scenario(start_ms=START_MS, rate=50)
    assert [row for tick in beats for row in tick.rows] == list(generate_within(scenario, Bounds(duration_s=10)))
    slow = list(islice(ticks(generate(Scenario(start_ms=START_MS, rate=0.01)), START_MS, 1000), 5))
    assert all(tick.rows for tick in slow)
    assert [tick.number for tick in slow] != list(range(5)), "ticks without rows are left out"


def test_a_tick_is_sent_when_it_is_over_and_not_before() -> None:
    clock = SteppedClock()
    for tick in paced(ten_seconds(), clock, StopFlag()):
        assert abs(clock.now_ms() - tick.ends_ms) < 1
    assert round(clock.slept_s) == 10
    behind, slow_sink = SteppedClock(now_ms=START_MS + 60_000), SteppedClock(drag_ms=20)
    assert len(list(paced(ten_seconds(), behind, StopFlag()))) == 10
    assert behind.slept_s == 0, "a feed that is behind does not wait"
    list(paced(ten_seconds(), slow_sink, StopFlag()))
    assert abs(slow_sink.now_ms() - START_MS - 10_000) < 300, "a slow sink is made up for"


def test_a_stop_ends_the_wait_and_sends_nothing_more() -> None:
    stop = StopFlag()

    class StoppingClock(SteppedClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.slept_s > 2.5:
                stop.set()

    sent = list(paced(ten_seconds(), StoppingClock(), stop))
    assert [tick.number for tick in sent] == [0, 1]
    wait_until(START_MS + 10**9, StoppingClock(), stop)


EVENT = ClickEvent(
    event_id="0af7",
    user_id="acme-000001",
    client="acme",
    ts=1_750_000_000_123,
    type="page_view",
    page="/search?q=käse",
    amount=0.0,
    device="mobile",
    timeout_s=None,
)
COMBINED = re.compile(
    rb'^(\S+) - (\S+) \[([^\]]*)\] "(\S+) (\S+) HTTP/1\.1" (\d{3}) (\d+) "https://(\w+)\.example/" "([^"]+)"$'
)
FORM_FAULTS = {RowKind.TRUNCATED, RowKind.INVALID_UTF8}


def click(kind: RowKind) -> bytes:
    rng = Random(1)
    return write_click(spoil_event(EVENT, kind, 30_000, rng), kind, rng)


def log_line(kind: RowKind) -> bytes:
    rng = Random(1)
    return write_access_log_line(spoil_event(EVENT, kind, 30_000, rng), kind, rng)


def test_a_click_has_exactly_the_columns_of_the_stream() -> None:
    written = json.loads(click(RowKind.NORMAL))
    assert written == {name: getattr(EVENT, name) for name in written}
    columns = ["event_id", "user_id", "client", "ts", "type", "page", "amount", "device", "timeout_s"]
    assert list(written) == columns


@pytest.mark.parametrize("kind", sorted(set(RowKind) - FORM_FAULTS))
def test_all_other_clicks_are_json_on_one_line(kind: RowKind) -> None:
    line = click(kind)
    assert b"\n" not in line
    assert set(json.loads(line)) == set(json.loads(click(RowKind.NORMAL)))


@pytest.mark.parametrize("seed", range(50))
def test_a_truncated_click_is_never_json(seed: int) -> None:
    line = write_click(replace(EVENT, page="/日本"), RowKind.TRUNCATED, Random(seed))
    assert line
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|Invalid"):
        json.loads(line.decode())


@pytest.mark.parametrize("write", [click, log_line])
def test_bad_utf8_is_bad(write: object) -> None:
    line = write(RowKind.INVALID_UTF8)  # type: ignore[operator]
    with pytest.raises(UnicodeDecodeError):
        line.decode()
    assert b"\n" not in line


def test_faults_of_value() -> None:
    normal = json.loads(click(RowKind.NORMAL))
    nulls = {RowKind.NULL_KEY: "user_id", RowKind.NULL_TIME: "ts", RowKind.NULL_EVENT_ID: "event_id"}
    for kind, column in nulls.items():
        assert json.loads(click(kind)) == normal | {column: None}
    assert json.loads(click(RowKind.SECONDS_FOR_MILLISECONDS))["ts"] == 1_750_000_000
    assert json.loads(click(RowKind.MILLISECONDS_FOR_SECONDS))["ts"] == 1_750_000_000_123_000
    assert json.loads(click(RowKind.NON_POSITIVE_TIMEOUT))["timeout_s"] <= 0
    ahead_days = (json.loads(click(RowKind.FUTURE))["ts"] - EVENT.ts) / 86_400_000
    assert 3_650 < ahead_days < 3_654


@pytest.mark.parametrize("seed", range(10))
def test_a_wrong_type_is_in_a_typed_column(seed: int) -> None:
    columns = json.loads(write_click(EVENT, RowKind.WRONG_TYPE, Random(seed)))
    typed = {"ts": int, "amount": float, "timeout_s": int | None}
    assert any(not isinstance(columns[name], kind) for name, kind in typed.items())


def test_a_log_line_is_in_the_combined_format() -> None:
    found = COMBINED.match(log_line(RowKind.NORMAL))
    assert found
    host, user, time, method, path, _status, _size, client, _agent = (part.decode() for part in found.groups())
    assert re.fullmatch(r"10\.\d+\.\d+\.\d+", host)
    assert (user, method, path, client) == ("acme-000001", "GET", "/search?q=k%C3%A4se", "acme")
    assert datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z").timestamp() == EVENT.ts // 1000


def test_log_faults() -> None:
    assert all(COMBINED.match(log_line(kind)) for kind in ACCESS_LOG_KINDS - FORM_FAULTS)
    assert b" - - [" in log_line(RowKind.NULL_KEY)
    assert b" [-] " in log_line(RowKind.NULL_TIME)
    assert b"/Foo/" in log_line(RowKind.WRONG_TYPE)
    assert not COMBINED.match(log_line(RowKind.TRUNCATED))
