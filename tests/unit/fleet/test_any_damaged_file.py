"""Whatever becomes of one stream's files, no reader fails, and no other stream is lost from sight.

``make test`` draws some damages of each kind. ``make test-long`` takes each damage of each file for each reader, and
each odd field for some readers.
"""

import logging
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.errors import NothingToShow
from support.faults.damaged_files import DAMAGES, field_damages, files_of, kept_aside, readers, small_platform
from support.processes.fabricated_platform import Platform

FIELDS, READERS = 25, 4
"""Odd fields that ``make test`` draws from all files, and readers of each."""
LARGEST = 20_000
"""Bytes of a file whose fields are spoiled one by one."""
NOBODY = 65_534


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[Platform, dict[str, Callable[[], object]]]]:
    """A platform in a folder that other users can enter, and all that read it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        platform = small_platform(Path(folder))
        yield platform, readers(platform)


class Unforeseen(logging.Handler):
    """The errors of a reading that no part of it foresaw. The stream is isolated, but its record was not checked."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors += [record.exc_info[1]] if record.exc_info and record.exc_info[1] else []

    def require_none(self) -> None:
        if self.errors:
            raise self.errors[0]


def look(stage: tuple[Platform, dict[str, Callable[[], object]]], what: str, names: list[str]) -> None:
    """Have each reader read. Its failure is told with the damage that it met."""
    met = Unforeseen()
    logging.getLogger().addHandler(met)
    try:
        for name in names:
            try:
                stage[1][name]()
                met.require_none()
            except Exception as error:
                error.add_note(f"{name}: {what}")
                raise
    finally:
        logging.getLogger().removeHandler(met)


def test_a_whole_platform_is_read(stage: tuple[Platform, dict[str, Callable[[], object]]]) -> None:
    look(stage, "whole", list(stage[1]))


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "no permission"])
def test_a_damaged_file_hides_no_stream(damage: str, stage: tuple[Platform, dict[str, Callable[[], object]]]) -> None:
    drawn = random.Random(damage)
    for file in drawn.sample(files_of(stage[0]), 8):
        with kept_aside(file):
            DAMAGES[damage](file)
            look(stage, f"{file}: {damage}", drawn.sample(list(stage[1]), READERS))


def test_an_odd_field_hides_no_stream(stage: tuple[Platform, dict[str, Callable[[], object]]]) -> None:
    drawn = random.Random(41)
    for file in drawn.choices([file for file in files_of(stage[0]) if file.stat().st_size < LARGEST], k=FIELDS):
        odd = list(field_damages(file.read_bytes()))
        if not odd:
            continue
        what, content = drawn.choice(odd)
        with kept_aside(file):
            file.write_bytes(content)
            look(stage, f"{file}: {what}", drawn.sample(list(stage[1]), READERS))


WRITERS = {"health"}
"""Readers that are the watch of a supervisor: it notes its looks."""


@pytest.mark.parametrize("gone", [None, "home.json", "lineage.json", "heartbeat.json", "checkpoint.json"])
def test_no_reader_writes(gone: str | None, stage: tuple[Platform, dict[str, Callable[[], object]]]) -> None:
    """``state timeline`` once made a new id of a home whose id was lost. The tables count as another home's then."""
    platform, all_readers = stage
    lost = [file for file in files_of(platform) if file.name == gone]
    assert bool(lost) == bool(gone)
    with ExitStack() as kept:
        for file in lost:
            kept.enter_context(kept_aside(file))
            file.unlink()
        before = contents(platform)
        for name in all_readers.keys() - WRITERS:
            look(stage, f"without {gone}", [name])
            assert contents(platform) == before, f"{name} has written"


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("status", "clicks", "--json"), ("tables", "clicks"), ("find", "clicks", "--key", "u"),
        ("timeline", "clicks"), ("state", "timeline", "clicks"), ("savepoint", "list", "clicks"), ("spec", "check"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_reader_makes_a_home(words: tuple[str, ...], platform: Platform) -> None:
    platform.add("clicks")
    before = contents(platform)
    taken = CliRunner().invoke(app, [*words, "--help"]).stdout
    places = {"--home": platform.home, "--streams": platform.streams}
    given = [str(each) for name, path in places.items() if name in taken for each in (name, path)]
    answer = CliRunner().invoke(app, [*words, *given])
    assert answer.exit_code == 0 or isinstance(answer.exception, NothingToShow)
    assert contents(platform) == before
    assert not (platform.home / "streams").exists()


def contents(platform: Platform) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in platform.home.parent.rglob("*") if file.is_file()}


PARTS = 20
"""Parts of the whole matrix, so that a run which is cut short has done some of them."""


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_reader_fails_of_any_damage(part: int, stage: tuple[Platform, dict[str, Callable[[], object]]]) -> None:
    for file, damage in list(product(files_of(stage[0]), DAMAGES))[part::PARTS]:
        with kept_aside(file):
            DAMAGES[damage](file)
            look(stage, f"{file}: {damage}", list(stage[1]))


OF_DELTA = 100
"""Odd fields of each file in the log of a Delta table, which has thousands. Of a record, each is tried."""


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_reader_fails_of_any_odd_field(part: int, stage: tuple[Platform, dict[str, Callable[[], object]]]) -> None:
    drawn = random.Random(part)
    for file in files_of(stage[0]):
        odd = list(field_damages(file.read_bytes())) if file.stat().st_size < LARGEST else []
        odd = odd[part::PARTS] if "_delta_log" not in file.parts else drawn.sample(odd, len(odd) and OF_DELTA // PARTS)
        for what, content in odd:
            with kept_aside(file):
                file.write_bytes(content)
                look(stage, f"{file}: {what}", ["word", *drawn.sample(list(stage[1]), READERS - 1)])


@pytest.mark.parametrize("name", ["lineage.json", "desired.json", "heartbeat.json", "spec.json", "home.json"])
def test_a_file_of_another_user_is_not_called_damaged(
    name: str, stage: tuple[Platform, dict[str, Callable[[], object]]]
) -> None:
    platform, _ = stage
    (file,) = [file for file in files_of(platform) if file.name == name]
    us = os.geteuid()
    with kept_aside(file):
        file.chmod(0)
        try:
            if us == 0:
                os.seteuid(NOBODY)  # root may read whatever its mode
            shown = platform.call("status", "clicks").stdout
        finally:
            os.seteuid(us)
    assert f"{file} may not be read" in shown
    assert f"{file} is damaged" not in shown
    assert "this process runs as" in shown
