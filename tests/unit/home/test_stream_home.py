"""Where a stream keeps what it owns, and what may not be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessionizer.errors import InvalidSpec, UnwritablePath
from sessionizer.home.stream_home import StreamHome, platform_home


def test_platform_home_is_absolute_and_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIONIZER_HOME", "")
    assert platform_home() == tmp_path / ".sessionizer"
    monkeypatch.setenv("SESSIONIZER_HOME", "elsewhere")
    assert platform_home() == tmp_path / "elsewhere"


def test_layout(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    assert home.name == "clicks"
    assert home.control == tmp_path / "streams/clicks/control"
    assert home.checkpoint("20261121T105501-3fa9c2") == home.lineages / "20261121T105501-3fa9c2/checkpoint"
    assert home.punctuations("a") == home.lineages / "a/punctuations"
    assert home.table("sessions") == home.root / "tables/sessions"
    assert home.logs == home.root / "logs"


@pytest.mark.parametrize("name", ["", "Clicks", "../x", "a/b", "1a", "a\n", "a" * 64, "ä"])
def test_names_that_could_leave_the_home_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidSpec, match="allowed"):
        StreamHome.of(tmp_path, name)
    with pytest.raises(InvalidSpec):
        StreamHome.of(tmp_path, "clicks").table(name)


@pytest.mark.parametrize("lineage", ["", ".", "..", "a/b", "a\n", "-a"])
def test_lineages_that_could_leave_the_home_are_refused(tmp_path: Path, lineage: str) -> None:
    with pytest.raises(InvalidSpec):
        StreamHome.of(tmp_path, "clicks").checkpoint(lineage)


def test_prepare_may_be_repeated(home: StreamHome) -> None:
    home.prepare()
    assert sorted(path.name for path in home.root.iterdir()) == ["control", "lineages", "logs", "tables"]


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "streams").write_text("in the way")
    with pytest.raises(UnwritablePath) as caught:
        StreamHome.of(tmp_path, "clicks").prepare()
    assert Path(caught.value.path).is_relative_to(tmp_path / "streams/clicks")


def test_a_place_where_even_root_cannot_write_is_named() -> None:
    with pytest.raises(UnwritablePath, match="/proc"):
        StreamHome.of(Path("/proc/self"), "clicks").prepare()
