"""Public classes and functions have names of their own: one name, one idea."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from support.places import REPOSITORY

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("jobs/sessionizer", "plugins/sessionizer_airflow")
NAMED_BY_OTHERS = (
    "jobs/sessionizer/cli/",  # a function of a command has the command's name
    "jobs/sessionizer/migrations/versions/",  # functions of a revision
    "jobs/sessionizer/page/app.py",  # routes
    "plugins/sessionizer_airflow/pages/app.py",  # routes
    "plugins/sessionizer_airflow/listener/",  # Airflow's hooks
)


def test_no_two_modules_define_one_public_name() -> None:
    places = defaultdict(set)
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        for each in ast.parse(path.read_text()).body:
            is_ours = isinstance(each, ast.ClassDef) or not module.startswith(NAMED_BY_OTHERS)
            if isinstance(each, ast.ClassDef | ast.FunctionDef) and is_ours and not each.name.startswith("_"):
                places[each.name].add(module)
    assert len(places) > 1_000
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


OF_OURS = {"stream", "name", "savepoint", "command", "verb", "is_"}
"""Streams, savepoints, commands, and a number. Their patterns let a shell see nothing in them."""


def unquoted_words(code: str) -> Iterator[str]:
    """Find what an f-string puts into a command between backticks."""
    for text in (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.JoinedStr)):
        said = ""
        for part in text.values:
            if isinstance(part, ast.Constant):
                said += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            if said.count("`") % 2 and said.rpartition("`")[2].startswith("sessionizer "):
                yield ast.unparse(part.value).rpartition(".")[2]
            said += "…"


def test_the_search_finds_a_word_of_an_event() -> None:
    assert [*unquoted_words("f'`sessionizer find {a.stream} --key {key}` and {more}'")] == ["stream", "key"]


def test_each_word_that_may_be_anything_goes_through_quoted_command() -> None:
    files = [file for root in ("jobs", "plugins") for file in (REPOSITORY / root).rglob("*.py")]
    found = {
        f"{file.name}: {word}" for file in files for word in unquoted_words(file.read_text()) if word not in OF_OURS
    }
    assert found == set()
