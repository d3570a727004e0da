"""Messages write a count with the noun that fits it: 1 file, 2 files."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionizer.counts import count_is, count_text, number_is, state_text

ROOT = Path(__file__).resolve().parents[2]
COUNTED = re.compile(
    # "2 of 1,000 rows" counts things of a whole, which is told as it is
    r"(?<!of )(?<!of the )(?<!of the first )\0([^\0]+)\0 (?:more |old |open )?"
    r"(?:files|rows|events|sessions|batches|records|days|findings|problems|differences|keys|key groups|tables|streams|"
    r"savepoints|lineages|partitions|jars|processes|frames)\b"
)
WITH_A_VERB = re.compile(r"\0((?:[^\0]*[ (])?(?:len|count|items|number)\b[^\0]*|[^\0]*\.items)\0 (?:are|were)\b")
NEVER_ONE = {
    "len(jar_names(stores))",  # Spark, Delta and Kafka need many
    "len(jar_names(stores or ()))",
    "len(self.files)",  # the files that describe one stream, which is refused
    "MOST_FILES",
    "unit",  # 1.2 M rows
    "encoding",  # files of CSV
    "reader",
    "least",  # a rate
    "most",
}


@pytest.mark.parametrize(
    ("count", "thing", "text"),
    [(0, "row", "0 rows"), (1, "row", "1 row"), (2, "batch", "2 batches"), (1_500, "process", "1,500 processes")],
)
def test_a_noun_fits_its_count(count: int, thing: str, text: str) -> None:
    assert count_text(count, thing) == text


def test_a_verb_and_a_state_fit_theirs() -> None:
    assert (count_is(1, "file"), count_is(2, "file")) == ("1 file is", "2 files are")
    assert (number_is(1), number_is(2)) == ("1 is", "2 are")
    assert state_text(3, 1, 2) == "3 events of 1 key in 2 sessions"


def test_no_sentence_has_a_plural_of_its_own_after_a_count() -> None:
    paths = [path for package in ("jobs", "plugins") for path in (ROOT / package).rglob("*.py")]
    found = {(path.name, count) for path in paths for count in counts_before_plurals(path)}
    assert len(paths) > 300
    assert {(name, count) for name, count in found if count not in NEVER_ONE} == set()


def counts_before_plurals(path: Path) -> Iterator[str]:
    for text in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.JoinedStr)):
        sentence = "".join(map(written, text.values))
        yield from (*COUNTED.findall(sentence), *WITH_A_VERB.findall(sentence))


def written(part: ast.expr) -> str:
    """The part of an f-string, a value between two zero bytes."""
    return f"\0{ast.unparse(part.value)}\0" if isinstance(part, ast.FormattedValue) else str(ast.literal_eval(part))
