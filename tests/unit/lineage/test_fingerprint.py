"""A lineage keeps what it runs by, and a driver on another line of Spark or Delta does not start on it."""

import importlib.metadata
import json
import tomllib
from typing import Any

import pytest

import sessionizer
from sessionizer.errors import DamagedFile, EngineChanged, SourceReplaced
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.excluded_ranges import ExcludedRange, ExcludedRanges, Records
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
from sessionizer.lineage.kept_spec import (
    SOURCE_IDS_FILE,
    choose_known_ids,
    note_source_ids,
    read_source_ids,
    require_same_source,
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


KAFKA = {"format": "kafka", "topic": "a,b"}
DELTA_OF_SOURCE_IDS = {"format": "delta", "path": "lake/events"}
READ = {"a": {"0": 5, "1": 0}, "b": {"0": 0}}


@pytest.mark.parametrize(
    ("source", "offset", "known"),
    [
        (KAFKA, READ, {"a": "A"}),  # of b nothing was read
        (KAFKA, None, {}),
        (DELTA_OF_SOURCE_IDS, {"reservoirId": "T", "reservoirVersion": 3}, {"lake/events": "T"}),
        (DELTA_OF_SOURCE_IDS, None, {}),
        ({"format": "files", "path": "in"}, {"logOffset": 3}, {}),
        ({"format": "socket"}, 3, {}),
    ],
)
def test_only_what_was_read_has_an_identity(source: dict[str, Any], offset: Any, known: dict[str, str]) -> None:
    assert choose_known_ids({"a": "A", "b": "B"}, source, offset) == known


@pytest.mark.parametrize("now", [{"a": "A"}, {"a": "A", "b": "B"}, {}, {"b": "B"}])
def test_an_id_that_nobody_knows_is_no_other_one(now: dict[str, str]) -> None:
    require_same_source("clicks", {"a": "A"}, now)


def test_another_id_is_named() -> None:
    with pytest.raises(SourceReplaced) as caught:
        require_same_source("clicks", {"a": "A", "b": "B"}, {"a": "A", "b": "C"})
    assert (caught.value.name, caught.value.known, caught.value.now) == ("b", "B", "C")


def test_ids_are_kept_beside_those_of_topics_that_were_left(home: StreamHome) -> None:
    home.prepare()
    lineage = start_lineage(home)
    assert read_source_ids(home, lineage) == {}
    note_source_ids(home, lineage, {"a": "A"})
    note_source_ids(home, lineage, {})
    note_source_ids(home, lineage, {"b": "B"})
    assert read_source_ids(home, lineage) == {"a": "A", "b": "B"}


@pytest.mark.parametrize("content", ["{", '{"format": 1}', '{"format": 1, "ids": []}', '{"format": 99, "ids": {}}'])
def test_a_damaged_record_is_not_taken_for_none(home: StreamHome, content: str) -> None:
    home.prepare()
    lineage = start_lineage(home)
    SOURCE_IDS_FILE.of(home, lineage).path.write_text(content)
    with pytest.raises(DamagedFile):
        read_source_ids(home, lineage)


def test_ranges_of_a_topic_go_with_it() -> None:
    ranges = {topic: ExcludedRange(topic, records=Records(topic, 0, 3, 5)) for topic in "ab"}
    files = ExcludedRange("in/*", files=("file:/in/1",))
    excluded_ranges = ExcludedRanges((*ranges.values(), files))
    assert excluded_ranges.select_topics(["a"]).ranges == (ranges["a"],)
    assert excluded_ranges.drop_topics(["a"]).ranges == (ranges["b"], files)
