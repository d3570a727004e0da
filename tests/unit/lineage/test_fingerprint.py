"""A lineage keeps what it runs by, and a driver on another line of Spark or Delta does not start on it."""

import importlib.metadata
import json
import tomllib

import pytest

import sessionizer
from sessionizer.errors import DamagedFile, EngineChanged
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.fingerprint import (
    DELTA,
    EARLIER,
    FINGERPRINT_FILE,
    PYTHON,
    RELEASE,
    SPARK,
    Fingerprint,
    code_digest,
    other_line,
    present_fingerprint,
    read_fingerprint,
    require_same_engine,
    write_fingerprint,
)
from support.places import REPOSITORY

NOW = {SPARK: "4.2.1", DELTA: "4.4.0"}


def test_the_release_has_one_version() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project.get("version") == sessionizer.__version__ or "version" in project["dynamic"]


def test_a_lineage_is_born_with_its_fingerprint(home: StreamHome) -> None:
    lineage = start_lineage(home)
    found = FINGERPRINT_FILE.of(home, lineage).require()
    assert found == present_fingerprint()
    assert found.code == code_digest()
    assert found.versions[SPARK] == importlib.metadata.version("pyspark")
    assert {RELEASE, PYTHON, SPARK, DELTA} <= found.versions.keys()
    require_same_engine(home, lineage)


def test_it_is_written_anew_only_if_it_says_something_else(home: StreamHome) -> None:
    lineage = start_lineage(home)
    path = FINGERPRINT_FILE.of(home, lineage).path
    born = path.read_text()
    write_fingerprint(home, lineage, present_fingerprint())
    assert path.read_text() == born
    write_fingerprint(home, lineage, Fingerprint("c0de", NOW, {"a": "b"}))
    assert FINGERPRINT_FILE.of(home, lineage).require() == Fingerprint("c0de", NOW, {"a": "b"})


def test_a_lineage_of_an_earlier_release_ran_by_what_that_release_pinned(home: StreamHome) -> None:
    lineage = start_lineage(home)
    FINGERPRINT_FILE.of(home, lineage).path.unlink()
    assert FINGERPRINT_FILE.of(home, lineage).require() is None
    assert read_fingerprint(home, lineage) == Fingerprint("", EARLIER)
    require_same_engine(home, lineage)


@pytest.mark.parametrize("damage", ["{", json.dumps({"code": 3, "versions": {}}), json.dumps({"versions": {}})])
def test_a_damaged_record_is_not_guessed(home: StreamHome, damage: str) -> None:
    lineage = start_lineage(home)
    FINGERPRINT_FILE.of(home, lineage).path.write_text(damage)
    with pytest.raises(DamagedFile):
        require_same_engine(home, lineage)


@pytest.mark.parametrize("program", [SPARK, DELTA])
def test_another_line_of_the_engine_does_not_go_on(home: StreamHome, program: str) -> None:
    lineage = start_lineage(home)
    born = present_fingerprint()
    write_fingerprint(home, lineage, Fingerprint(born.code, {**born.versions, program: "4.1.9"}))
    with pytest.raises(EngineChanged) as raised:
        require_same_engine(home, lineage)
    assert (raised.value.program, raised.value.kept, raised.value.now) == (program, "4.1.9", born.versions[program])


@pytest.mark.parametrize(
    ("kept", "now", "changed"),
    [
        (NOW, NOW, None),
        ({**NOW, SPARK: "4.2.0"}, NOW, None),
        ({**NOW, SPARK: "4.1.1"}, NOW, (SPARK, "4.1.1", "4.2.1")),
        ({**NOW, SPARK: "3.2.1"}, NOW, (SPARK, "3.2.1", "4.2.1")),
        ({**NOW, DELTA: "4.5.0"}, NOW, (DELTA, "4.5.0", "4.4.0")),
        ({}, NOW, None),
        (NOW, {}, None),
    ],
)
def test_a_line_is_the_first_two_numbers(
    kept: dict[str, str], now: dict[str, str], changed: tuple[str, str, str] | None
) -> None:
    assert other_line(kept, now) == changed
