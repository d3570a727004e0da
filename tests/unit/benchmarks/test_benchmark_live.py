"""Which batches count beside a savepoint, and what they come to."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from sessionizer_bench.live_savepoints import AS_IT_IS, lines
from sessionizer_bench.measuring.live_batches import Span, Taken, p95, p95_of_period, quantile

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
    assert p95(range(1, 101)) == 95
    assert quantile([(7.0, 1.0)], 0.95) == 7.0


@pytest.mark.parametrize(("share", "expected"), [(0.01, 100), (0.04, 100), (0.06, 300), (0.5, 300)])
def test_few_batches_beside_a_savepoint_do_not_move_the_p95_of_a_long_period(share: float, expected: int) -> None:
    assert p95_of_period([100] * 10, [300] * 3, share) == expected
