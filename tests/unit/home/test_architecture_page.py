"""The page that a newcomer reads first names every file and every room there is, and no file that is gone."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

from sessionizer.home.control_files import ControlFiles
from sessionizer.home.lineage_home import LineageHome
from support.places import REPOSITORY

X = Path("/x")
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def paths_of(files: ControlFiles | LineageHome) -> list[str]:
    """The names of all that ``files`` makes, with placeholders for ids."""
    found = []
    for name, member in inspect.getmembers(type(files)):
        if name.startswith("_") or name in {"root", "records"}:
            continue
        if isinstance(member, property):
            found.append(getattr(files, name).name)
        elif name not in {"lease", "told"}:
            found.append(member(files, "uid").name.replace("uid", "<uid>"))
    return found


def test_every_file_of_a_stream_is_on_the_page() -> None:
    missing = [name for name in (*paths_of(ControlFiles(X)), *paths_of(LineageHome(X, X))) if name not in PAGE]
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
