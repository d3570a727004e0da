"""The rules of plain words, as far as a program can hold them: docstrings, names, and texts of errors."""

import ast
import re
from collections.abc import Iterator
from typing import Final

LONGEST_SENTENCE: Final = 25
"""Words in the first sentence of a docstring."""
_FIRST: Final = frozenset(
    [
        "Of",
        "What",
        "Who",
        "Whoever",
        "Where",
        "When",
        "Why",
        "How",
        "That",
        "Those",
        "As",
        "By",
        "In",
        "From",
        "With",
        "Without",
        "For",
        "To",
        "It",
        "One",
    ]
)
_VAGUE: Final = re.compile(
    r"\b(whoever|somebody|anybody|nobody|a person|who (?:has|wants|asks|made|makes|is)|what (?:is|was|there is))\b",
    re.IGNORECASE,
)
_PREPOSITION_FIRST: Final = re.compile(r"_?(of|in|by|with|without|from|to|for)_")
_IDIOMS: Final = frozenset({"to_json", "from_json", "from_environment"})
_RIDDLE: Final = re.compile(r"allowed: nothing|(?<!do )\bnothing (?:if|where|unless)\b")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def findings_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the broken rule of each finding in a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
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
