"""``sessionizer checkpoint inspect`` on files alone, and what ``state`` refuses before Spark starts."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionizer.errors import DamagedCheckpoint, InvalidSpec, NothingToShow
from support.checkpoints.fabricated_checkpoints import QUERY_ID, Way, fabricated
from support.expected.file_accesses import folder_digest
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fabricated(4).put(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_a_sound_checkpoint_is_described(
    main: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = folder_digest(folder)
    assert main("checkpoint", "inspect", str(folder), "--deep", "--settings") == 0
    told = capsys.readouterr().out
    for part in (
        QUERY_ID, "0 to 3 are kept; 3 is over", "aggregation (stateStoreSave)", "partitions  2", "nothing is damaged",
        "spark.sql.shuffle.partitions=2", 'files, up to {"logOffset": 3}', "state format 2 (RocksDB, unsaferow)",
    ):  # fmt: skip
        assert part in told
    assert folder_digest(folder) == before


def test_a_damaged_one_is_named_with_its_remedy_and_the_exit_code_says_so(
    main: Callable[..., int], folder: Path, capsys: pytest.CaptureFixture[str], reviewed: Reviewed
) -> None:
    fabricated(4).damaged("offsets/3", Way.EMPTIED).put(folder)
    assert main("checkpoint", "inspect", str(folder)) == DamagedCheckpoint.exit_code
    told = capsys.readouterr()
    reviewed(told.out)
    assert "step        remove commits/3" in told.out
    assert "1 finding" in told.err
    assert main("checkpoint", "inspect", str(folder), "--json") == DamagedCheckpoint.exit_code
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["file"], finding["effect"]) == ("offsets/3", "STOPS")
    assert finding["steps"] == ["remove offsets/3", "remove commits/3"]


def test_a_folder_that_is_none_is_refused(main: Callable[..., int], tmp_path: Path) -> None:
    assert main("checkpoint", "inspect", str(tmp_path)) == InvalidSpec.exit_code
    assert main("checkpoint", "inspect", str(tmp_path / "nowhere")) == InvalidSpec.exit_code


def test_a_stream_that_never_ran_has_nothing_to_show(
    main: Callable[..., int], platform: Platform, capsys: pytest.CaptureFixture[str]
) -> None:
    platform.add("clicks")
    for verb in (("show", "clicks"), ("timeline", "clicks"), ("compare", "clicks", "1", "2")):
        assert main("state", *verb, "--home", str(platform.home)) == NothingToShow.exit_code
        assert "it never ran" in capsys.readouterr().err
    assert main("state", "show", "clicks", "--key", "k", "--group", "1") == InvalidSpec.exit_code
