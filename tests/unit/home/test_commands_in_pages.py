"""Each `sessionizer` command in the documents has a name and options that exist, and so has each option alone."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from sessionizer.cli.app import app
from support.places import REPOSITORY

TREE: Final = typer.main.get_command(app)
PAGES: Final = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *REPOSITORY.glob("examples/*/*.md")]
BLOCK: Final = re.compile(r"^ *```.*?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
TYPED: Final = re.compile(r"^ *(?:\$ )?(?:[\w./-]*/)?sessionizer ((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
INLINE: Final = re.compile(r"(?<!`)`sessionizer ([^`]+)`")
OPTION: Final = re.compile(r"(?<!`)`(--[a-z][\w-]*)[^`]*`")
NO_PAGES_OF_OURS: Final = {"CHANGELOG.md", "CONTRIBUTING.md", "benchmarks.md"}
"""Pages with options of other programs, or of earlier releases."""
OF_OTHERS: Final = {"--flag", "--help", "--jars", "--py-files", "--web"}
"""Options of spark-submit and Prometheus, of every command, and one that stands for any."""
ANY_NAME: Final = ("…", "COMMAND", "commands")
"""Words that stand for every command."""


def commands_of(page: Path) -> Iterator[str]:
    """Yield the words after `sessionizer`: in blocks, and between backticks."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.findall(text):
        yield from (typed.replace("\\\n", " ") for typed in TYPED.findall(block))
    yield from (inline.replace("\n", " ") for inline in INLINE.findall(BLOCK.sub("", text)))


def words_of(command: str) -> list[str]:
    """Return the words of a command without its comment, and without brackets around a word that may be left out."""
    quoted = command if command.count('"') % 2 == 0 and command.count("'") % 2 == 0 else re.split("[\"']", command)[0]
    return [word.strip("[]") for word in shlex.split(quoted, comments=True) if word not in {"|", "&&"}]


def unknown_words(command: str) -> Iterator[str]:
    """Yield the words that name no command, and the options that the command does not have."""
    group: Any = TREE
    words = words_of(command)
    while hasattr(group, "commands") and words:
        word = words.pop(0)
        if word.startswith("-"):
            known = {name: each for each in group.params for name in each.opts} | {"--help": None}
            if word not in known:
                yield word
            elif known[word] is not None and not known[word].is_flag:
                words.pop(0)
        elif word in ANY_NAME:
            return
        elif word in group.commands:
            group = group.commands[word]
        else:
            yield word
            return
    options = {name for each in group.params for name in each.opts} | {"--help"}
    yield from (word for word in words if word.startswith("--") and word not in options)


def options_of(group: Any) -> set[str]:
    """Return the options of a command and of all commands below it."""
    own = {name for each in group.params for name in each.opts}
    return own.union(*(options_of(each) for each in getattr(group, "commands", {}).values()))


def test_the_commands_of_all_pages_exist() -> None:
    found = {(page.name, command): list(unknown_words(command)) for page in PAGES for command in commands_of(page)}
    assert len(found) > 300
    assert {command: words for command, words in found.items() if words} == {}


def test_each_option_between_backticks_is_one_of_a_command() -> None:
    known = options_of(TREE) | OF_OTHERS
    pages = [page for page in PAGES if page.name not in NO_PAGES_OF_OURS]
    named = {page.name: OPTION.findall(BLOCK.sub("", page.read_text(encoding="utf-8"))) for page in pages}
    assert sum(len(options) for options in named.values()) > 150
    assert {page: set(options) - known for page, options in named.items() if set(options) - known} == {}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("restor clicks", ["restor"]),
        ("restore clicks --leave-in x", ["--leave-in"]),
        ("--control hdfs://n:8020/control status", []),
        ("savepoint prune clicks --keep 1 --yes   # deletes", []),
        ("… --home copy", []),
    ],
)
def test_a_wrong_word_is_found(command: str, words: list[str]) -> None:
    assert list(unknown_words(command)) == words
