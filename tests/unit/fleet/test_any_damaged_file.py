"""Whatever becomes of one stream's files, no reader fails, and no other stream is lost from sight.

``make test`` draws some damages of each file. ``make test-long`` takes all.
"""

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
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


def look(stage: tuple[Platform, dict[str, Callable[[], object]]], what: str, names: list[str]) -> None:
    """Have each reader read. Its failure is told with the damage that it met."""
    for name in names:
        try:
            stage[1][name]()
        except Exception as error:
            error.add_note(f"{name}: {what}")
            raise


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


@pytest.mark.parametrize("gone", [None, "home.json", "data.json", "lineage.json", "heartbeat.json", "checkpoint.json"])
def test_no_reader_writes(gone: str | None, stage: tuple[Platform, dict[str, Callable[[], object]]]) -> None:
    """``state timeline`` once made a new id of a home whose id was lost. The tables count as another home's then."""
    platform, all_readers = stage
    lost = [file for file in files_of(platform) if file.name == gone]
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


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_no_reader_fails_of_any_damage(stage: tuple[Platform, dict[str, Callable[[], object]]]) -> None:
    for file in files_of(stage[0]):
        content = file.read_bytes()
        for damage, spoil in DAMAGES.items():
            with kept_aside(file):
                spoil(file)
                look(stage, f"{file}: {damage}", list(stage[1]))
        for what, odd in field_damages(content) if len(content) < LARGEST else ():
            with kept_aside(file):
                file.write_bytes(odd)
                look(stage, f"{file}: {what}", list(stage[1]))


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
