"""Data sets: the same every time, in order, and as full of open sessions as they say."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sessionizer_bench.contestants.race import Race
from sessionizer_bench.data import texts, visits
from sessionizer_bench.data.dataset import Dataset, Traffic
from sessionizer_bench.data.generator import StoredDataset, only_first, stored
from sessionizer_bench.tournament import Choices, turns
from sessionizer_bench.workloads import GROWTH_LEVELS, full, growth

if TYPE_CHECKING:
    from pathlib import Path

TRAFFIC = Traffic(users=500, events_per_second=50, mean_gap_s=10, timeouts_s=(30, 60))
SMALL = Dataset("tiny", batch_events=500, batches=4, traffic=TRAFFIC, warm_up_batches=1)


def rows(data: StoredDataset) -> pa.Table:
    files = sorted(data.files.iterdir(), key=lambda file: file.stat().st_mtime)
    return pa.concat_tables([pq.read_table(file) for file in files])


def test_batches_are_equal_and_files_in_order_of_time(tmp_path: Path) -> None:
    data = stored(SMALL, tmp_path)
    files = sorted(data.files.iterdir())
    assert [pq.read_metadata(file).num_rows for file in files] == [250] * 10
    assert all(one.stat().st_mtime < other.stat().st_mtime for one, other in pairwise(files))
    assert data.uncounted == 1


def test_the_same_description_gives_the_same_events(tmp_path: Path) -> None:
    assert rows(stored(SMALL, tmp_path / "a")).equals(rows(stored(SMALL, tmp_path / "b")))


def test_another_description_has_another_place() -> None:
    assert replace(SMALL, seed=2).folder_name != SMALL.folder_name


def test_what_is_cached_is_not_made_again(tmp_path: Path) -> None:
    (file, *_) = stored(SMALL, tmp_path).files.iterdir()
    inode = file.stat().st_ino
    stored(SMALL, tmp_path)
    assert file.stat().st_ino == inode


def test_measured_batches_do_not_depend_on_the_background(tmp_path: Path) -> None:
    few = replace(SMALL, background=100, background_awake=50, background_share=0.3)
    many = replace(few, background=700)
    some, more = rows(stored(few, tmp_path)), rows(stored(many, tmp_path))
    assert more.num_rows - some.num_rows == 2 * 600
    assert more.slice(1400).equals(some.slice(200))


def test_a_batch_that_is_sent_twice_has_each_event_twice(tmp_path: Path) -> None:
    twice = rows(stored(replace(SMALL, sent_twice=True), tmp_path))
    for batch in (twice.slice(start, 500) for start in range(0, twice.num_rows, 500)):
        assert batch.slice(0, 250).equals(batch.slice(250))
    assert twice.num_rows == 2_500
    assert len(set(twice.column("event_id").to_pylist())) == 1_250


def test_the_first_batches_of_a_data_set(tmp_path: Path) -> None:
    data = stored(SMALL, tmp_path)
    part = only_first(data, 2, SMALL.files_per_batch)
    assert rows(part).equals(rows(data).slice(0, 3 * 500))
    assert only_first(data, 9, SMALL.files_per_batch) == data


def test_sessions_have_eleven_events_and_gaps_below_their_timeout() -> None:
    events, session = visits.ordinary(np.random.default_rng(1), TRAFFIC, 2_000_000)
    assert abs(len(events) / len(np.unique(session)) - 11) < 0.3
    inside = np.diff(session) == 0
    assert (np.diff(events.at_ms)[inside] <= events.timeout_s[1:][inside] * 1000).all()


def test_history_is_of_open_sessions_only() -> None:
    events, session = visits.ordinary(np.random.default_rng(1), TRAFFIC, 200_000)
    past = visits.history(events, session, 3)
    assert (past.at_ms < visits.START_MS).all()
    assert not past.is_last.any()
    newest = dict(zip(past.user, past.at_ms, strict=True))
    assert all(at + 60_000 > visits.START_MS for at in newest.values())


def test_texts_are_of_the_length_they_should_be() -> None:
    rng = np.random.default_rng(1)
    lengths = [len(text) for text in texts.requests(rng, 2_000).to_pylist()]
    assert 30 <= min(lengths) <= max(lengths) <= 90
    assert texts.numbered("u", np.array([7, 12_345_678])).to_pylist() == ["u00000007", "u12345678"]
    assert {len(text) for text in texts.hexadecimal(rng, 100, 16).to_pylist()} == {16}


def test_contestants_take_turns() -> None:
    order = [(turn.contestant, turn.repetition) for turn in turns((growth(1000),), Choices(repetitions=2))]
    assert order == [(name, number) for number in (0, 1) for name in ("ours", "session_window", "ours_plain")]


def test_workloads_have_names_of_their_own() -> None:
    names = [workload.name for workload in full()]
    assert len(set(names)) == len(names) == 4 + len(GROWTH_LEVELS)


def test_a_race_survives_json(tmp_path: Path) -> None:
    race = Race(tmp_path / "files", 2, tmp_path, 30, 16)
    values = {name: getattr(race, name) for name in race.__slots__}
    assert Race.from_json({**values, "files": str(race.files), "folder": str(race.folder)}) == race
