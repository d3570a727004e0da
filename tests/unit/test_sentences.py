"""The sentences that a user reads, one golden file per family: other tests compare fields, exit codes and JSON."""

import json
from collections.abc import Callable, Iterable
from functools import cache

import pytest
from typer.main import get_command

from sessionizer.causes.cause import name_stream
from sessionizer.causes.table import CAUSES, remedy_for
from sessionizer.cli.app import app
from sessionizer_airflow.operating.request import form_fields
from support.expected.error_examples import EXAMPLES
from support.fixtures.reviewed import FOLDER as REVIEWED
from support.places import REPOSITORY
from support.sentences import (
    IMPERATIVES,
    compared_sentences,
    findings_of_sentence,
    has_clause,
    help_of,
    is_sentence,
    progress_in,
    refusals_in,
    texts_in,
)

Golden = Callable[[str, str], None]


FILES = sorted(file for folder in ("jobs", "plugins") for file in (REPOSITORY / folder).rglob("*.py"))
ERRORS = [f"{type(error).__name__} ({error.exit_code}): {error}" for error in EXAMPLES]
REMEDIES = [f"{type(error).__name__}: {remedy_for(error)}" for error in EXAMPLES]
CAUSE_LINES = sorted(
    f"{cause.name} ({cause.verdict}): {cause.called} → {name_stream(cause.remedy, 'clicks')}"
    for cause in CAUSES.values()
)
COMPARED = REPOSITORY / "tests" / "golden" / "compared_sentences.json"
KNOWN = REPOSITORY / "tests" / "golden" / "sentences" / "broken_rules.json"
FAMILIES: dict[str, Callable[[], Iterable[str]]] = {
    "errors": lambda: ERRORS,
    "remedies": lambda: REMEDIES,
    "causes": lambda: CAUSE_LINES,
    "refusals": lambda: sorted(set(refusals_in(FILES))),
    "progress": lambda: sorted({text for text in progress_in(FILES) if is_sentence(text)}),
    "help": lambda: help_of(get_command(app), "sessionizer"),
    "form": lambda: [f"{name}: {option.title}: {option.help}" for name, (option, _) in form_fields().items()],
}
"""The sentences of each family, found by the test that needs them: every worker of a run imports this file."""


@cache
def sentences_of(family: str) -> tuple[str, ...]:
    return tuple(FAMILIES[family]())


def other_sentences() -> list[str]:
    """Find what no other family has: health, plans, verdicts, findings, pages, and what a DAG says of itself."""
    known = "\n".join(text for family in FAMILIES if family != "others" for text in sentences_of(family))
    return sorted({text for text in texts_in(FILES) if has_clause(text) and text not in known})


FAMILIES["others"] = other_sentences


@pytest.mark.parametrize("family", FAMILIES)
def test_each_sentence_is_as_it_was_reviewed(family: str, golden: Golden) -> None:
    golden(f"sentences/{family}.txt", _lines(sentences_of(family)))


def test_no_family_breaks_more_rules_than_it_did(pytestconfig: pytest.Config) -> None:
    broken = {
        family: [f"{rule}: {text}" for text in sentences_of(family) for rule in findings_of_sentence(text)]
        for family in FAMILIES
    }
    if pytestconfig.getoption("--rewrite-golden"):
        KNOWN.write_text(json.dumps({family: len(found) for family, found in broken.items()}, indent=1) + "\n")
    known = json.loads(KNOWN.read_text())
    worse = [line for family, found in broken.items() if len(found) > known[family] for line in found]
    assert not worse, "rewrite these, see CONTRIBUTING.md:\n" + "\n".join(worse)


def test_no_file_compares_more_sentences_than_it_did(pytestconfig: pytest.Config) -> None:
    """Such a test is edited with every sentence. Pin fields, or use the fixture ``reviewed``."""
    tests = REPOSITORY / "tests"
    found = {
        file.relative_to(tests).as_posix(): list(compared_sentences(file.read_text(encoding="utf-8")))
        for file in sorted(tests.rglob("test_*.py"))
    }
    if pytestconfig.getoption("--rewrite-golden"):
        COMPARED.write_text(json.dumps({file: len(lines) for file, lines in found.items() if lines}, indent=1) + "\n")
    known = json.loads(COMPARED.read_text())
    worse = {file: lines for file, lines in found.items() if len(lines) > known.get(file, 0)}
    assert not worse, "pin fields there, or show the text to the fixture `reviewed`"


def test_each_reviewed_text_belongs_to_a_test() -> None:
    tests = {file.stem: file.read_text(encoding="utf-8") for file in (REPOSITORY / "tests").rglob("test_*.py")}
    keys = [key for file in REVIEWED.glob("*.json") for key in json.loads(file.read_text())]
    named = [(key, *key.partition("[")[0].split("::")) for key in keys]
    assert [key for key, file, test in named if f"def {test}(" not in tests.get(file, "")] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('assert "the stream is over now" in told', 1),
        ('assert told == f"stream {name} has come to its end"', 1),
        ('with raises(Error, match="the stream is over now"): ...', 1),
        ('assert told.kind == "over"', 0),
        ('assert "the stream is" in told', 0),
        ('told = "the stream is over now"', 0),
    ],
)
def test_a_compared_sentence_is_found(source: str, found: int) -> None:
    assert len(list(compared_sentences(source))) == found


def test_a_remedy_begins_with_what_to_do() -> None:
    remedies = [line.partition("→ ")[2] or line.partition(": ")[2] for line in (*REMEDIES, *CAUSE_LINES)]
    assert [each for each in remedies if each.split()[0].strip(":,") not in IMPERATIVES] == []


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("allowed: nothing, as the history is the source", 1),
        ("nothing: a query is for a table", 1),
        ("ask whoever started it", 1),
        ("free some space; the stream resumes", 1),
        ("word " * 31, 1),
        ("Omit it, because text has one column", 0),
        ("run `sessionizer switch; x`. Then wait", 0),
    ],
)
def test_each_rule_is_held(text: str, rules: int) -> None:
    assert len(list(findings_of_sentence(text))) == rules


def _lines(texts: Iterable[str]) -> str:
    return "".join(text.replace("\n", "\\n") + "\n" for text in texts)
