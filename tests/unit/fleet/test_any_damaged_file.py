"""Whatever becomes of one stream's files, no reader fails, and no other stream is lost from sight.

``make test`` draws some damages of each file. ``make test-long`` takes all.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.faults.damaged_files import DAMAGES, field_damages, files_of, kept_aside, readers, small_platform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
