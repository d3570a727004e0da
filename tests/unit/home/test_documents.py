"""The documents fit together: every link and every file leads somewhere, every decision is in the index."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from support.places import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]


def anchors(page: Path) -> set[str]:
    """What GitHub makes of its headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), target


OURS = re.compile(r"`((?:[\w-]+/)*\w+\.py)(?:::\w+)?`")
"""A file of Python between backticks: its name, or the end of its path."""
NOT_OURS = {"pyspark/daemon.py"}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_file_of_python_that_a_page_names_is_there(page: Path) -> None:
    named = set(OURS.findall(page.read_text(encoding="utf-8"))) - NOT_OURS
    assert sorted(name for name in named if not any(path.endswith(f"/{name}") for path in python_files())) == []


@cache
def python_files() -> list[str]:
    roots = ("jobs", "plugins", "dags", "demo", "benchmarks", "tests", "docker", "release")
    return [f"/{path.relative_to(REPOSITORY)}" for root in roots for path in (REPOSITORY / root).rglob("*.py")]


def test_every_decision_is_in_the_index() -> None:
    folder = REPOSITORY / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    missing = [path.name for path in folder.glob("0*.md") if f"({path.name})" not in index]
    assert not missing


NO_OPENING = {"README.md", "benchmark-results.md"}
"""The index, and a page that a program writes."""


TIME = re.compile(r"\b(?:seconds?|minutes?|hours?)\b|\d s\b")


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_page_says_when_to_use_it_for_how_long_and_is_in_the_index(page: Path) -> None:
    opening = page.read_text(encoding="utf-8").split("\n\n")[1]
    assert page.name in NO_OPENING or (opening.startswith("Use this when ") and TIME.search(opening))
    index = (REPOSITORY / "docs" / "README.md").read_text(encoding="utf-8")
    assert page.name == "README.md" or f"({page.name})" in index
