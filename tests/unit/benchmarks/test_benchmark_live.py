"""Which batches count beside a savepoint, and what they come to."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sessionizer.core.definition.oracle import sessionize
from sessionizer.spark.query.assembly import rules_of
from sessionizer_bench.data.live import EVENTS_PER_SECOND, EVENTS_PER_VISIT, TIMEOUT_S, events_of
from sessionizer_bench.data.soak_feed import SoakFeed
from sessionizer_bench.live_savepoints import AS_IT_IS, lines
from sessionizer_bench.measuring.event_log import BATCH
from sessionizer_bench.measuring.executor_shares import OF_STATE, furthest_from_even, open_of_partition, shares
from sessionizer_bench.measuring.latency import latencies
from sessionizer_bench.measuring.live_batches import Span, Taken, p95, p95_of_period, quantile
from sessionizer_bench.measuring.soak_figures import compare_tables, slopes
from sessionizer_bench.reporting.figures import growth_ratio, ratio, ratios, spread, typical, workload_runs
from sessionizer_bench.reporting.results import merge_results
from sessionizer_bench.reporting.tables import document, earlier, latency, markdown, promises, race, summary
from sessionizer_bench.reporting.targets import RATE, Target, targets
from sessionizer_bench.workloads import LARGE, LATENCY, OURS, PASS_THROUGH, SESSION_WINDOW
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.sinks.folder_sink import FolderSink
from support.expected.landed import Landed, as_landed, is_valid
from support.streams.stage import Stage, clicks_spec

BATCHES = [Span(start, start + took) for start, took in ((0, 100), (1000, 100), (2000, 300), (3000, 400), (4000, 100))]
TAKEN = Taken.of(BATCHES, [Span(0, 1500), Span(3900, 4050)], [(AS_IT_IS, Span(2200, 3010))], [50.0])


def test_a_batch_is_beside_a_savepoint_where_the_two_overlap_and_quiet_only_as_a_whole() -> None:
    assert TAKEN.quiet_ms == [100, 100]
    assert TAKEN.beside[AS_IT_IS].batches_ms == [300, 400]
    assert TAKEN.beside[AS_IT_IS].savepoints_ms == [810]


def test_runs_add_up_and_are_kept_as_json() -> None:
    again = Taken.from_json(json.loads(json.dumps(asdict(TAKEN))))
    both = again.and_those_of(Taken.of(BATCHES, [], [("hurry", Span(900, 1050))], [60.0]))
    assert both.quiet_ms == [100, 100]
    assert {way: found.batches_ms for way, found in both.beside.items()} == {AS_IT_IS: [300, 400], "hurry": [100]}
    assert both.summary()["busy_percent"] == 55


def test_the_lines_say_how_many_times_as_long_a_batch_took() -> None:
    quiet, beside = lines(TAKEN.summary())
    assert quiet == "without: 2 batches, median 100 ms, p95 100 ms, machine 50 % busy"
    assert "2 batches meanwhile, median 350 ms (3.5 ×), p95 400 ms (4.0 ×)" in beside


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert (p95(range(1, 101)), quantile([(7.0, 1.0)], 0.95)) == (95, 7.0)
    assert furthest_from_even([10, 10, 13]) == pytest.approx(2 / 11)
    assert furthest_from_even([0, 0]) == 0


@pytest.mark.parametrize(("share", "expected"), [(0.01, 100), (0.04, 100), (0.06, 300), (0.5, 300)])
def test_few_batches_beside_a_savepoint_do_not_move_the_p95_of_a_long_period(share: float, expected: int) -> None:
    assert p95_of_period([100] * 10, [300] * 3, share) == expected


def job(batch: int, *stages: int) -> dict[str, Any]:
    return {"Event": "SparkListenerJobStart", "Properties": {BATCH: str(batch)}, "Stage IDs": list(stages)}


def task(stage: int, executor: str, partition: int, *, of_state: bool = False) -> dict[str, Any]:
    metrics = {
        "Executor Run Time": 10,
        "Shuffle Read Metrics": {"Remote Bytes Read": 1, "Local Bytes Read": 2},
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 5},
    }
    accumulables = [{"Name": OF_STATE, "Update": "7"}] if of_state else []
    info = {"Executor ID": executor, "Partition ID": partition, "Accumulables": accumulables}
    return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info, "Task Metrics": metrics}


LOG: list[dict[str, Any]] = [
    *({"Event": "SparkListenerExecutorAdded", "Executor ID": number} for number in "012"),
    {"Event": "SparkListenerJobStart", "Properties": None, "Stage IDs": [0]},
    task(0, "0", 0),
    job(0, 1),
    task(1, "0", 0, of_state=True),
    job(1, 2),
    task(2, "0", 0, of_state=True),
    task(2, "1", 1, of_state=True),
    job(2, 3),
    task(3, "1", 0, of_state=True),
    task(3, "1", 1, of_state=True),
]


def test_only_tasks_of_the_batches_that_count_are_counted_and_an_idle_executor_is_one() -> None:
    found = shares(LOG, 1, [10, 20], 2).shares
    assert {executor: share.tasks for executor, share in found.items()} == {"0": 1, "1": 3, "2": 0}
    assert (found["1"].shuffle_read_bytes, found["1"].shuffle_written_bytes, found["1"].run_ms) == (9, 15, 30)


def test_the_state_is_where_its_last_task_was() -> None:
    reading = shares(LOG, 1, [10, 20], 2)
    assert reading.stateful_moves == 1
    share = reading.shares["1"]
    assert (share.state_partitions, share.open_sessions) == (2, 30)
    assert reading.shares["0"].state_partitions == 0


@pytest.mark.parametrize(("partitions", "most"), [(4, 4), (8, 2), (5, 5), (200, 2)])
def test_groups_are_spread_over_partitions_as_spark_does(partitions: int, most: int) -> None:
    found = open_of_partition([1] * 16, partitions)
    assert (len(found), sum(found.values()), max(found.values())) == (partitions, 16, most)


def test_a_live_feed_has_so_many_events_a_second_once_it_has_filled() -> None:
    rng = np.random.default_rng(1)
    seconds = [events_of(rng, second, second * 1000) for second in range(1, 12)]
    assert [table.num_rows for table in seconds[EVENTS_PER_VISIT:]] == [EVENTS_PER_SECOND] * 6
    users = Counter(user for table in seconds for user in table.column("user_id").to_pylist())
    assert max(users.values()) == EVENTS_PER_VISIT


def test_events_of_a_second_are_of_that_second() -> None:
    table = events_of(np.random.default_rng(1), 9, 1_700_000_000_000)
    at_ms = [moment.timestamp() * 1000 - 1_700_000_000_000 for moment in table.column("event_time").to_pylist()]
    assert min(at_ms) >= 0
    assert max(at_ms) < 1000


def test_latency_is_counted_from_the_end_and_the_gap_to_the_commit_after_the_warm_up() -> None:
    cold, warm = (100.0, [0.0]), (200.0, [200.0 - TIMEOUT_S - delay for delay in (1.0, 2.0, 3.0)])
    assert latencies([cold, warm], warm_up_s=60)["latency_ms_median"] == 2000
    assert latencies([cold, warm], warm_up_s=60)["sessions"] == 3
    assert latencies([cold], warm_up_s=60) == {"latency_ms_median": None, "latency_ms_p95": None, "sessions": 0}


def test_the_results_show_both_contestants() -> None:
    measured = {"latency_ms_median": 4321.0, "latency_ms_p95": 5000.0, "sessions": 7, "batch_ms_mean": 900.0}
    runs = [{"workload": LATENCY, "repetition": 0, "contestant": name, **measured} for name in (OURS, SESSION_WINDOW)]
    shown = latency(runs)
    assert shown.count("4,321") == 2
    machine = {"processor": "x", "cores": 2, "memory_gib": 1, "system": "Linux"}
    results = {"runs": runs, "machine": machine, "taken_at": "", "revision": "", "quick": False, "workloads": {}}
    assert shown in document(results)
    assert "median delay of a session, against session_window | ≤ 1 × | 1.00 × | met" in document(results)


def run(contestant: str, repetition: int, rate: float, workload: str = "large") -> dict[str, Any]:
    return {
        "workload": workload, "contestant": contestant, "repetition": repetition, RATE: rate,
        "events_per_second_from_cold": rate / 2, "batch_ms_mean": 1e6 / rate, "batch_ms_median": 1e6 / rate,
        "peak_memory_bytes": 2e9, "state_bytes": 3e6, "checkpoint_written_bytes": 4e6,
        "load_before": 0.1, "load_after": 2.0, "others_percent": 0.0, "steal_percent": 0.0,
    }  # fmt: skip


RUNS = [
    run(OURS, 0, 100), run(PASS_THROUGH, 0, 125), run(SESSION_WINDOW, 0, 50),
    # the machine was half as fast this time
    run(OURS, 1, 50), run(PASS_THROUGH, 1, 60), run(SESSION_WINDOW, 1, 20),
    run(OURS, 2, 102), run(PASS_THROUGH, 2, 120), run(SESSION_WINDOW, 2, 60),
]  # fmt: skip


def test_a_ratio_is_taken_within_a_repetition() -> None:
    runs = workload_runs(RUNS, "large")
    assert ratios(runs[OURS], runs[SESSION_WINDOW], RATE) == pytest.approx([2.0, 2.5, 1.7])
    assert ratio(RUNS, "large", RATE, OURS, SESSION_WINDOW) == pytest.approx(2.0)
    assert ratios([run(OURS, 0, 10), run(OURS, 1, 10)], [run(PASS_THROUGH, 1, 20)], RATE) == [0.5], (
        "one lacks the other"
    )
    assert ratio(RUNS, "large", RATE, OURS, "per_user") is None
    assert typical([run(OURS, 0, 1), run(OURS, 1, 9), {"contestant": OURS}, run(OURS, 2, 5)], RATE) == 5, "the median"
    assert typical([], RATE) is None
    assert spread([run(OURS, 0, 4), run(OURS, 1, 2)], RATE) == (2, 4)
    grown = [run(OURS, 0, 100, "growth-100k"), run(OURS, 0, 80, "growth-1000k")]
    assert growth_ratio(grown, "batch_ms_mean", OURS, "growth-100k", "growth-1000k") == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("target", "figure", "met"),
    [
        (Target("rate", lambda _: None, at_least=1.5), 1.5, True),
        (Target("rate", lambda _: None, at_least=1.5), 1.49, False),
        (Target("time", lambda _: None, at_most=25, unit="s"), 25, True),
        (Target("time", lambda _: None, at_most=25, unit="s"), 25.1, False),
    ],
)
def test_a_bound_is_met_when_reached(target: Target, figure: float, met: bool) -> None:
    assert target.met(figure) is met


def test_promises_say_what_was_not_measured_and_what_was_missed() -> None:
    lines = promises(RUNS).splitlines()[2:]
    assert len(lines) == len(targets())
    assert lines[0].endswith("| ≥ 0.8 × | 0.83 × | met |")
    assert lines[1].endswith("| ≥ 1.5 × | 2.00 × | met |")
    assert all(line.endswith("| – | not measured |") for line in lines[2:])
    assert "**missed**" in promises([run(OURS, 0, 10), run(PASS_THROUGH, 0, 100)])
    assert markdown(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"


def test_document_has_a_row_for_each_contestant() -> None:
    machine = {"processor": "A", "cores": 2, "memory_gib": 8, "system": "Linux"}
    taken = {"quick": False, "taken_at": "today", "revision": "abc", "machine": machine}
    text = document({**taken, "workloads": {"large": LARGE.title}, "runs": RUNS})
    assert f"## {LARGE.title}" in text
    assert "| ours | 100 | 50 – 102 | 50 | – |" in text
    assert "| pass through | 120 | 60 – 125 | 60 | 0.83 × (0.80 – 0.85) |" in text


def test_the_median_of_two_loads_has_one_decimal() -> None:
    runs = [{**run(OURS, number, 10), "load_before": load} for number, load in enumerate((2.1, 2.2))]
    assert "| 2.2 → 2.0 |" in race(runs, "large")


def test_what_is_not_run_again_keeps_its_revision() -> None:
    kept = {"taken_at": "Monday", "revision": "abc", "runs": [*RUNS, {**RUNS[0], "workload": "small"}]}
    results = merge_results(kept, {"taken_at": "Tuesday", "revision": "def", "runs": []}, {"large"})
    assert [record["workload"] for record in results["runs"]] == ["small"]
    assert earlier([*results["runs"], *RUNS]) == ["Earlier, Monday at revision abc: small."]
    again = merge_results(results, {"taken_at": "Wednesday", "revision": "ghi", "runs": []}, {"startup"})
    assert earlier(again["runs"]) == ["Earlier, Monday at revision abc: small."]


def test_summary_names_the_ratios_so_far() -> None:
    assert summary(RUNS[:3], "large") == (
        "ours 100, pass_through 125, session_window 50, ours/pass_through 0.80, ours/session_window 2.00"
    )


FILES = 36


@pytest.mark.parametrize("files_of_a_batch", [1, 5, 8])
def test_its_outcome_does_not_depend_on_batches(files_of_a_batch: int, tmp_path: Path) -> None:
    spec = Stage.set_up(tmp_path, clicks_spec(max_events=50)).spec()
    feed = SoakFeed(FolderSink(tmp_path, "clicks", ".json"), 1_790_000_000_000, seed=3, rate=15, files=FILES)
    rows = [list(tick.rows) for tick in feed.written()]
    kinds = {row.kind for file in rows for row in file}
    assert {RowKind.LATE_BEYOND, RowKind.EXACT_DUPLICATE, RowKind.TRUNCATED} <= kinds
    parts = [
        [row for file in rows[first : first + files_of_a_batch] for row in file if is_valid(row)]
        for first in range(0, FILES, files_of_a_batch)
    ]
    apart = as_landed(sessionize(feed.batches(*parts), rules_of(spec)), [row for file in rows for row in file])
    assert feed.expected(spec) == apart


def test_what_is_lost_and_what_is_doubled_is_counted() -> None:
    wanted = Landed(sessions=Counter({("a",): 1, ("b",): 1}))
    there = Landed(sessions=Counter({("a",): 3, ("c",): 1}))
    found = compare_tables(wanted, there)["sessions"]
    assert (found["expected"], found["lost"], found["doubled"], found["others"]) == (2, 1, 2, 1)


def test_a_slope_is_told_of_an_hour() -> None:
    samples = [{"at": minute * 60_000, "threads": 50 + minute / 6} for minute in range(60)]
    found = slopes(samples)["threads"]
    assert (found["an_hour"], found["first"] < found["last"]) == (10, True)
