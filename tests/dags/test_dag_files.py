"""DAG files of users: their streams beside them, wherever the file is, and several teams in one Airflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from airflow.dag_processing.dagbag import DagBag

from sessionizer_airflow.operators.supervise_stream import SuperviseStream

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CALL = "from sessionizer_airflow import stream_dags\nstream_dags(globals(), 'streams'{more})\n"
SPEC = """
name: {name}
owner: {name}
source: {{format: files, path: feed, encoding: json, columns: "k string, t timestamp, i string"}}
mapping: {{key: k, event_time: t, event_id: i}}
"""
PLATFORM = {"operate", "upgrade", "maintenance", "savepoints", "compaction", "orphans"}
OF_A_STREAM = {"supervise", "report", "stop", "start"}


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A DAG bundle with a stream of the team's name."""
    monkeypatch.setenv("SESSIONIZER_HOME", "/platform")

    def make(name: str, more: str = "") -> Path:
        folder = tmp_path / name
        (folder / "streams").mkdir(parents=True)
        (folder / f"{name}_dags.py").write_text(CALL.format(more=more))
        (folder / "streams" / f"{name}.yaml").write_text(SPEC.format(name=name))
        return folder

    return make


def dags_of(folder: Path) -> DagBag:
    bag = DagBag(str(folder))
    assert bag.import_errors == {}
    return bag


def test_specs_are_beside_the_dag_file(team: Callable[..., Path]) -> None:
    folder = team("shop")
    bag = dags_of(folder)
    assert set(bag.dags) == {f"shop.{verb}" for verb in OF_A_STREAM} | {f"sessionizer.{verb}" for verb in PLATFORM}
    (watch,) = bag.dags["shop.supervise"].tasks
    assert isinstance(watch, SuperviseStream)
    assert watch.project.streams == folder / "streams"


def test_two_teams_have_no_dag_in_common(team: Callable[..., Path]) -> None:
    shop, news = dags_of(team("shop")), dags_of(team("news", ", platform='news'"))
    assert set(shop.dags) & set(news.dags) == set()
    assert {f"news.{verb}" for verb in PLATFORM} <= set(news.dags)
    assert news.dags["news.operate"].params.get_param("stream").schema["enum"] == ["news"]


def test_the_dags_of_all_streams_may_be_left_out(team: Callable[..., Path]) -> None:
    assert set(dags_of(team("shop", ", platform=None")).dags) == {f"shop.{verb}" for verb in OF_A_STREAM}


def test_a_broken_spec_costs_only_its_own_stream_the_dags(team: Callable[..., Path]) -> None:
    folder = team("shop")
    (folder / "streams" / "broken.yaml").write_text("name: broken\n")
    assert {name.partition(".")[0] for name in dags_of(folder).dags} == {"shop", "sessionizer"}


def test_a_platform_without_a_name_is_refused(team: Callable[..., Path]) -> None:
    (error,) = DagBag(str(team("shop", ", platform='a b'"))).import_errors.values()
    assert "platform" in error
