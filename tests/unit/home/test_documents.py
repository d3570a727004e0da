"""The documents fit together: every link and every file leads somewhere, every decision is in the index."""

import re
from functools import cache
from pathlib import Path

import pytest

from support.places import REPOSITORY

LINK = re.compile(r"\]\(([^)\s]+)\)")
DOCUMENTS = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]


@cache
def anchors(page: Path) -> set[str]:
    """What GitHub makes of its headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_link_leads_somewhere() -> None:
    links = [(page, target) for page in DOCUMENTS for target in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [(page.name, target) for page, target in links if "://" not in target and not leads(page, target)] == []


def leads(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    return found.exists() and (not anchor or found.suffix != ".md" or anchor in anchors(found))


OURS = re.compile(r"`((?:[\w-]+/)*\w+\.py)(?:::\w+)?`")
"""A file of Python between backticks: its name, or the end of its path."""
NOT_OURS = {"pyspark/daemon.py"}


def test_every_file_of_python_that_a_page_names_is_there() -> None:
    named = {(page.name, name) for page in DOCUMENTS for name in OURS.findall(page.read_text(encoding="utf-8"))}
    assert [name for name in named if name[1] not in NOT_OURS and not is_there(name[1])] == []


def is_there(name: str) -> bool:
    return any(path.endswith(f"/{name}") for path in python_files())


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


def test_the_figures_of_the_readme_are_those_of_the_benchmarks() -> None:
    section = (REPOSITORY / "README.md").read_text(encoding="utf-8").partition("## Figures")[2].partition("\n## ")[0]
    measured = (REPOSITORY / "docs" / "benchmark-results.md").read_text(encoding="utf-8")
    figures = re.findall(r"(?<= )\d[\d,]*[,.]\d+(?= \|)", section)
    assert len(figures) > 8
    assert [figure for figure in figures if f" {figure} " not in measured] == []
