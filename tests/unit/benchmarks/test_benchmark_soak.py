"""The soak's feed has one outcome in any batches, and its figures tell lost rows, doubled rows and slopes."""

from collections import Counter
from pathlib import Path

import pytest

from sessionizer.core.definition.oracle import sessionize
from sessionizer.spark.query.assembly import rules_of
from sessionizer_bench.data.soak_feed import SoakFeed
from sessionizer_bench.measuring.soak_figures import compare_tables, slopes
from sessionizer_demo.feed.rows.kinds import RowKind
from support.expected.landed import Landed, as_landed, is_valid
from support.streams.stage import Stage, clicks_spec

FILES = 36


@pytest.mark.parametrize("files_of_a_batch", [1, 5, 8])
def test_its_outcome_does_not_depend_on_batches(files_of_a_batch: int, tmp_path: Path) -> None:
    spec = Stage.set_up(tmp_path, clicks_spec(max_events=50)).spec()
    feed = SoakFeed(tmp_path, 1_790_000_000_000, seed=3, rate=15, files=FILES)
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
