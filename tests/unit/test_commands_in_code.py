"""Commands in the product's messages: a word that is no name of ours is quoted for the shell."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from support.places import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

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
