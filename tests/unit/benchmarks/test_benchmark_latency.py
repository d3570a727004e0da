from __future__ import annotations

from collections import Counter

import numpy as np

from sessionizer_bench.data.live import EVENTS_PER_SECOND, EVENTS_PER_VISIT, TIMEOUT_S, events_of
from sessionizer_bench.measuring.latency import latencies
from sessionizer_bench.reporting.tables import document, latency
from sessionizer_bench.workloads import LATENCY, OURS, SESSION_WINDOW


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
