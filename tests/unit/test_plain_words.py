"""Plain words: no file may break more rules than it did, and a new file may break none."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
KNOWN = ROOT / "tests" / "golden" / "plain_words.json"
FOLDERS = ("jobs", "plugins", "dags", "demo", "benchmarks")


LONGEST_SENTENCE: Final = 25
"""Words in the first sentence of a docstring."""
_FIRST: Final = frozenset({
    "Of", "What", "Who", "Whoever", "Where", "When", "Why", "How", "That", "Those", "As", "By", "In", "From", "With",
    "Without", "For", "To", "It", "One",
})  # fmt: skip
_VAGUE: Final = re.compile(
    r"\b(whoever|somebody|anybody|nobody|a person|who (?:has|wants|asks|made|makes|is)|what (?:is|was|there is))\b",
    re.IGNORECASE,
)
_PREPOSITION_FIRST: Final = re.compile(r"_?(of|in|by|with|without|from|to|for)_")
_IDIOMS: Final = frozenset({"to_json", "from_json", "from_environment"})
_RIDDLE: Final = re.compile(r"allowed: nothing|(?<!do )\bnothing (?:if|where|unless)\b")


def findings_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the broken rule of each finding in a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield from ((node.body[0].lineno, rule) for rule in _broken_by(text, returns_bool=_returns_bool(node)))
        if isinstance(node, ast.FunctionDef) and _PREPOSITION_FIRST.match(node.name) and node.name not in _IDIOMS:
            yield node.lineno, f"a name that begins with a preposition: {node.name}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _RIDDLE.search(node.value):
            yield node.lineno, "a text that allows nothing: say what to do, in the imperative"


def _broken_by(text: str, *, returns_bool: bool) -> Iterator[str]:
    head = text.split("\n\n", maxsplit=1)[0].replace("\n", " ")
    first = head.split()[0].strip("`:,")
    if first in _FIRST:
        yield f"begins with {first!r}"
    if first == "Whether" and not returns_bool:
        yield "begins with 'Whether', but returns no bool"
    if ";" in head:
        yield "a semicolon"
    if len(re.split(r"(?<=\.)\s", head)[0].split()) > LONGEST_SENTENCE:
        yield f"a first sentence of more than {LONGEST_SENTENCE} words"
    if vague := _VAGUE.search(head):
        yield f"no actor: {vague[0]!r}"


def _returns_bool(node: ast.AST) -> bool:
    return getattr(getattr(node, "returns", None), "id", "") == "bool"


def test_no_file_breaks_more_rules_than_it_did(pytestconfig: pytest.Config) -> None:
    found = {str(file.relative_to(ROOT)): list(findings_in(file.read_text(encoding="utf-8"))) for file in _files()}
    counts = {name: len(findings) for name, findings in sorted(found.items()) if findings}
    if pytestconfig.getoption("--rewrite-golden"):
        KNOWN.write_text(json.dumps(counts, indent=1) + "\n")
    known = json.loads(KNOWN.read_text())
    worse = [
        f"{name}:{line}: {rule}"
        for name, findings in found.items()
        if len(findings) > known.get(name, 0)
        for line, rule in findings
    ]
    assert not worse, "rewrite these, see docs/words.md:\n" + "\n".join(worse)


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ('"""What it does."""', 1),
        ('def f() -> int:\n    """Whether it is."""', 1),
        ('def f() -> bool:\n    """Whether it is."""', 0),
        ('"""Two facts; one sentence."""', 1),
        ('"""The end of whoever was late."""', 1),
        ('"""' + "word " * 26 + '."""', 1),
        ("def of_errors() -> None: ...", 1),
        ("def to_json() -> None: ...", 0),
        ('raise ValueError("allowed: nothing, as ever")', 1),
        ('def read() -> int:\n    """Return the number of rows."""', 0),
    ],
)
def test_each_rule_is_held(source: str, rules: int) -> None:
    assert len(list(findings_in(source))) == rules


def _files() -> list[Path]:
    return sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
