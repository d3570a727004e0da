"""A table or a history on HDFS where no server listens is known as away at once: its client tries for minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from sessionizer.deployment.running_side import sink_columns
from sessionizer.deployment.verdicts.tables import SinkColumns
from sessionizer.errors import StoreUnreachable
from sessionizer.home.roots import folder_at
from sessionizer.spark.history.history_rows import find_in_folder
from sessionizer.spark.history.state_rows import state_at
from sessionizer.spark.sinks.change_watch import ChangeWatch
from sessionizer.spark.sinks.table_check import TableCheck
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

AWAY: Final = "hdfs://127.0.0.1:1/lake"
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path, clicks_spec() | {"sink": {"path": AWAY}})


def test_a_driver_leaves_the_tables_to_spark(stage: Stage) -> None:
    TableCheck(stage.stream_home, stage.spec(), None, accepts=False, say=print).check_files()


def test_a_plan_goes_without_the_columns_of_the_table(stage: Stage) -> None:
    assert sink_columns(stage.stream_home, stage.spec()) == SinkColumns()


def test_a_look_for_other_writers_is_put_off(stage: Stage) -> None:
    said: list[str] = []
    ChangeWatch(stage.stream_home, "20261121T105501-3fa9c2", {"sessions": AWAY}, said.append).look()
    assert said == []


def test_a_history_is_refused(stage: Stage) -> None:
    with pytest.raises(StoreUnreachable):
        find_in_folder(folder_at(AWAY), stage.spec().source, "--history")


def test_a_state_is_refused() -> None:
    with pytest.raises(StoreUnreachable):
        state_at(f"checkpoint:{AWAY}", None, "--history")
