"""The page that a newcomer reads first names every file and every room there is, and no file that is gone."""

import inspect
import re
import tomllib
from pathlib import Path

from sessionizer.home.record_file import ControlFile, LineageFile
from sessionizer.home.stream_home import LineageHome
from support.places import REPOSITORY
from support.record_files import record_files

X = Path("/x")
ROOTS = ("jobs", "plugins", "tests")
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def names_of(files: LineageHome) -> list[str]:
    """The names of the files that have no record of one kind."""
    found = inspect.getmembers(type(files), lambda member: isinstance(member, property))
    return [getattr(files, name).name for name, _ in found]


def test_every_file_of_a_stream_is_on_the_page() -> None:
    records = [file.name.replace("{}", f"<{file.key}>") for file in record_files(ControlFile)]
    of_lineages = [f"lineages/<id>/{file.name}" for file in record_files(LineageFile)]
    missing = [name for name in (*records, *of_lineages, *names_of(LineageHome(X, X))) if name not in PAGE]
    assert len(records) > 10
    assert len(of_lineages) > 8
    assert not missing


def test_every_room_is_on_the_page() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rooms = {room for contract in contracts for layer in contract.get("layers", []) for room in layer.split(" | ")}
    missing = sorted(room for room in rooms if f"`{room}`" not in PAGE and f"`{room}.py`" not in PAGE)
    assert not missing


def test_every_file_of_ours_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`((?:jobs|plugins|dags|tests|spark|core|cli|control)/[\w/]+(?:\.\w+)?)`", PAGE))
    roots = (REPOSITORY, REPOSITORY / "jobs" / "sessionizer")
    gone = [name for name in named if not any((root / name).exists() for root in roots) and "json" not in name]
    assert not gone


def test_every_file_that_a_paragraph_about_a_folder_names_is_in_it() -> None:
    paragraphs = re.findall(r"^In `(\w+/[\w/]+)`: (.+?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert len(paragraphs) >= 2
    gone = [
        f"{folder}/{name}"
        for folder, text in paragraphs
        for name in re.findall(r"`(\w+\.py)`", text)
        if not (REPOSITORY / folder / name).exists()
    ]
    assert not gone


def test_each_change_begins_in_a_file_that_is_there() -> None:
    """The first file of a row is named in full, or its folder is. A row names the others by the end of their path."""
    table = PAGE.partition("## Where a change begins")[2].partition("### ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    ours = {f"/{file.relative_to(REPOSITORY)}" for root in ROOTS for file in (REPOSITORY / root).rglob("*.py")}
    begins = {row[0]: re.findall(r"`((?:jobs|plugins)/[\w/]+(?:\.py)?)`", row[1]) for row in rows}
    lost = [change for change, named in begins.items() if named and not (REPOSITORY / named[0]).exists()]
    named = {name for row in rows for name in re.findall(r"`([\w/]+\.py)`", " ".join(row))}
    gone = sorted(name for name in named if not any(file.endswith(f"/{name}") for file in ours))
    assert sum(bool(named) for named in begins.values()) >= 19
    assert (lost, gone) == ([], [])
