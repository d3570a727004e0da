"""The jars of drivers: which are needed, which are missing, which are of another release."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from sessionizer.errors import JarsNotFetched
from sessionizer.home.roots import ObjectStore
from sessionizer.launch.installation import APPLICATION, PACKAGE, driver_python, has_own_python, jar_folder
from sessionizer.launch.jars import DIGESTS, altered_jars, fetch_jars, jar_names, missing_jars, other_versions

if TYPE_CHECKING:
    from pathlib import Path

DELTA = "delta-spark_4.2_2.13-4.4.0.jar"


def test_the_package_lists_exact_jars() -> None:
    assert DELTA in jar_names()
    assert all(name.endswith(".jar") for name in jar_names())
    assert len(jar_names()) >= 9


def test_missing_jars_are_named() -> None:
    assert missing_jars(jar_names()) == []
    assert missing_jars(set(jar_names()) - {DELTA}) == [DELTA]


def test_each_listed_jar_has_its_digest(tmp_path: Path) -> None:
    assert {line.split()[1] for line in DIGESTS.read_text().splitlines()} == set(jar_names(ObjectStore))
    (tmp_path / DELTA).write_bytes(b"other bytes")
    assert altered_jars(tmp_path, [DELTA]) == [DELTA]


def test_another_version_of_a_jar_is_found() -> None:
    assert other_versions([*jar_names(), "delta-spark_4.2_2.13-4.3.1.jar", "mine-1.0.jar"]) == [
        "delta-spark_4.2_2.13-4.3.1.jar"
    ]


def test_a_folder_with_all_jars_needs_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in jar_names():
        (tmp_path / name).touch()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert fetch_jars(tmp_path) == []
    (tmp_path / DELTA).unlink()
    with pytest.raises(JarsNotFetched, match="no Java"):
        fetch_jars(tmp_path)
    assert [each.name for each in tmp_path.iterdir() if each.name not in jar_names()] == []


def test_places_are_inside_the_package_and_the_environment() -> None:
    assert APPLICATION.is_file()
    assert APPLICATION.is_relative_to(PACKAGE)
    assert str(jar_folder({})).endswith("share/streaming-state/jars")
    assert str(jar_folder({"SESSIONIZER_JARS": "/jars"})) == "/jars"


def test_drivers_may_have_a_python_of_their_own() -> None:
    there = {"SESSIONIZER_PYTHON": "/opt/driver/bin/python"}
    assert driver_python(there) == "/opt/driver/bin/python"
    assert has_own_python(there)
    assert str(jar_folder(there)) == "/opt/driver/share/streaming-state/jars"
    assert driver_python({}) == sys.executable
    assert not has_own_python({})
