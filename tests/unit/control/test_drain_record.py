"""A lineage that was drained says so, whatever cut its driver short."""

import pytest

from sessionizer.checkpoint.log_entries import commit_log
from sessionizer.errors import DamagedFile, StreamDrained
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import (
    DRAINED_FILE,
    begin_drain,
    end_drain,
    examine_drain,
    require_not_drained,
    start_lineage,
)
from support.fixtures.reviewed import Reviewed
from support.places import opened


@pytest.fixture
def lineage(home: StreamHome) -> str:
    return start_lineage(home)


def commit(home: StreamHome, lineage: str, batch_id: int) -> None:
    """As Spark notes that a batch is over."""
    folder = commit_log(home.checkpoint(lineage))
    opened(folder).mkdir(exist_ok=True)
    opened(folder / str(batch_id)).touch()


def test_a_stream_that_never_ran_or_runs_on_is_not_drained(home: StreamHome) -> None:
    require_not_drained(home)
    lineage = start_lineage(home)
    commit(home, lineage, 0)
    require_not_drained(home)
    assert examine_drain(home) is None


def test_a_drain_is_over_when_its_last_batch_is(home: StreamHome, lineage: str, reviewed: Reviewed) -> None:
    commit(home, lineage, 3)
    begin_drain(home, lineage)
    require_not_drained(home)
    begun = DRAINED_FILE.of(home, lineage).require()
    begin_drain(home, lineage)
    assert begun == DRAINED_FILE.of(home, lineage).require()
    end_drain(home, lineage)
    with pytest.raises(StreamDrained) as raised:
        require_not_drained(home)
    reviewed(raised.value, at=raised.value.at)


def test_a_damaged_record_is_not_guessed(home: StreamHome, lineage: str) -> None:
    DRAINED_FILE.of(home, lineage).path.write_text("{")
    with pytest.raises(DamagedFile):
        require_not_drained(home)
    assert examine_drain(home) is None
