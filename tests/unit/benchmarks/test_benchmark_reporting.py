"""From records of runs to medians, ratios and verdicts."""

from typing import Any

import pytest

from sessionizer_bench.reporting.figures import growth_ratio, ratio, ratios, spread, typical, workload_runs
from sessionizer_bench.reporting.results import merge_results
from sessionizer_bench.reporting.tables import document, earlier, markdown, promises, race, summary
from sessionizer_bench.reporting.targets import RATE, Target, targets
from sessionizer_bench.workloads import LARGE, OURS, PASS_THROUGH, SESSION_WINDOW


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


def test_a_repetition_that_lacks_one_of_the_two_has_no_ratio() -> None:
    assert ratios([run(OURS, 0, 10), run(OURS, 1, 10)], [run(PASS_THROUGH, 1, 20)], RATE) == [0.5]
    assert ratio(RUNS, "large", RATE, OURS, "per_user") is None


def test_typical_is_the_median_of_what_is_there() -> None:
    assert typical([run(OURS, 0, 1), run(OURS, 1, 9), {"contestant": OURS}, run(OURS, 2, 5)], RATE) == 5
    assert typical([], RATE) is None
    assert spread([run(OURS, 0, 4), run(OURS, 1, 2)], RATE) == (2, 4)


def test_growth_compares_one_contestant_with_itself() -> None:
    records = [run(OURS, 0, 100, "growth-100k"), run(OURS, 0, 80, "growth-1000k")]
    assert growth_ratio(records, "batch_ms_mean", OURS, "growth-100k", "growth-1000k") == pytest.approx(1.25)


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


def test_promises_say_what_was_not_measured() -> None:
    lines = promises(RUNS).splitlines()[2:]
    assert len(lines) == len(targets())
    assert lines[0].endswith("| ≥ 0.8 × | 0.83 × | met |")
    assert lines[1].endswith("| ≥ 1.5 × | 2.00 × | met |")
    assert all(line.endswith("| – | not measured |") for line in lines[2:])


def test_a_missed_promise_stands_out() -> None:
    assert "**missed**" in promises([run(OURS, 0, 10), run(PASS_THROUGH, 0, 100)])


def test_document_has_a_row_for_each_contestant() -> None:
    machine = {"processor": "A", "cores": 2, "memory_gib": 8, "system": "Linux"}
    results = {
        "quick": False,
        "taken_at": "today",
        "revision": "abc",
        "machine": machine,
        "workloads": {"large": LARGE.title},
    }
    text = document({**results, "runs": RUNS})
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


def test_markdown_aligns_figures() -> None:
    assert markdown(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | ---: |\n| 1 | 2 |"
