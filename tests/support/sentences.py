"""The sentences that a user reads, rendered from the product: for the golden files and the rules of plain words."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

LONGEST_SENTENCE: Final = 30
"""Words in one sentence of an error or a remedy. Names and paths in it are counted, too."""
SAYS_NOTHING: Final = re.compile(r"allowed: |(?<!do )\bnothing (?:if|where|unless)\b|^nothing\b")
NO_ACTOR: Final = re.compile(r"\b(?:whoever|somebody|anybody|nobody)\b", re.IGNORECASE)
IMPERATIVES: Final = frozenset({
    "add", "ask", "check", "choose", "continue", "correct", "create", "do", "drain", "end", "enter", "fill", "find",
    "finish", "free", "get", "give", "grant", "install", "keep", "leave", "let", "look", "make", "mount", "move",
    "omit", "put", "read", "reduce", "remove", "rename", "repair", "report", "restore", "resume", "run", "set",
    "start", "stop", "switch", "type", "undo", "unpause", "use", "wait", "write",
})  # fmt: skip
"""Verbs that a remedy may begin with."""
WORDS_OF_A_SENTENCE: Final = 4
"""Words of a text that a test must not compare as a whole, if three of them follow one another."""
_COMMAND: Final = re.compile(r"`[^`]*`|\bsessionizer [\w -]+")
_SENTENCE: Final = re.compile(r"[a-z]+ [a-z]+ [a-z]+")
_REFUSALS: Final = {"InvalidSpec": 2, "refusal": 1, "UnusableConnection": 3, "_check_option": 3}
"""Calls that name the values to use instead, and which argument does."""
_PROGRESS: Final = {**dict.fromkeys(("say", "secho", "echo", "info", "warning", "error"), 0), "working_spark": 3}
"""Calls that print a line, and which argument it is."""


def refusals_in(files: Iterable[Path]) -> Iterator[str]:
    """Yield what each refusal of a value says to use instead, with ``{names}`` for what it fills in."""
    for file in files:
        yield from _texts_of(file, _REFUSALS)


def progress_in(files: Iterable[Path]) -> Iterator[str]:
    """Yield each line of progress or of a log, with ``{names}`` for what it fills in."""
    for file in files:
        yield from _texts_of(file, _PROGRESS)


def help_of(command: Any, name: str) -> Iterator[str]:
    """Yield the help of a command of Click, of its options, and of the commands below it."""
    yield f"{name}: {' '.join((command.help or '').split())}"
    for parameter in command.params:
        yield f"{name} {parameter.opts[0]}: {getattr(parameter, 'help', None) or ''}"
    for word, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from help_of(below, f"{name} {word}")


def texts_in(files: Iterable[Path]) -> Iterator[str]:
    """Yield each text of the product except docstrings, with ``{names}`` for what it fills in."""
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        seen = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if _is_text(node) and id(node) not in seen:
                seen |= {id(part) for part in ast.walk(node)}
                yield _rendered(node, {})


def is_sentence(text: str) -> bool:
    """Tell whether a text has words of its own, beside the values that it shows."""
    return len(re.sub(r"\{.*?\}+", " ", text).split()) > 1


def has_clause(text: str) -> bool:
    """Tell whether three words of a text follow one another. One that begins on the next line is a list or a page."""
    return not text.startswith("\n") and _SENTENCE.search(re.sub(r"\{.*?\}+", " ", text)) is not None


def findings_of_sentence(text: str) -> Iterator[str]:
    """Yield the rules that an error, a remedy or a line of progress breaks."""
    if SAYS_NOTHING.search(text):
        yield "it allows nothing: say what to do, in the imperative"
    if vague := NO_ACTOR.search(text):
        yield f"no actor: {vague[0]!r}"
    if "; " in re.sub(r"`[^`]*`", "", text):
        yield "a semicolon: make two sentences"
    for sentence in re.split(r"(?<=[.?!])\s+", re.sub(r"\{[^{}]*\}|`[^`]*`", "X", text)):
        if len(sentence.split()) > LONGEST_SENTENCE:
            yield f"a sentence of more than {LONGEST_SENTENCE} words"


def compared_sentences(source: str) -> Iterator[int]:
    """Yield the line of each assert, and of each ``match=``, that has a whole sentence in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert):
            compared: list[ast.expr] = [node.test]
        elif isinstance(node, ast.Call):
            compared = [keyword.value for keyword in node.keywords if keyword.arg == "match"]
        else:
            continue
        if any(_SENTENCE.search(text) for value in compared for text in _texts_below(value)):
            yield node.lineno


def _texts_below(value: ast.expr) -> Iterator[str]:
    for node in ast.walk(value):
        if _is_text(node):
            text = _COMMAND.sub(" ", _rendered(node, {}))
            yield text if len(re.findall(r"[A-Za-z]{2,}", text)) >= WORDS_OF_A_SENTENCE else ""


def _texts_of(file: Path, calls: dict[str, int]) -> Iterator[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    constants = dict(_assigned(tree.body))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions or []:
        local = {**constants, **dict(_assigned(ast.walk(function)))}
        for node in ast.walk(function):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in calls and len(node.args) > calls[name]:
                yield _rendered(node.args[calls[name]], local)


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if len(targets) == 1 and isinstance(targets[0], ast.Name) and value is not None and _is_text(value):
            yield targets[0].id, _rendered(value, {})


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _rendered(node: ast.AST, names: dict[str, str]) -> str:
    match node:
        case ast.Constant():
            text = str(node.value)
        case ast.JoinedStr():
            text = "".join(_rendered(value, names) for value in node.values)
        case ast.FormattedValue(value=ast.Name(id=name)) if name.isupper() and name in names:
            text = names[name]
        case ast.FormattedValue():
            text = f"{{{ast.unparse(node.value)}}}"
        case ast.Name(id=name) if name in names:
            text = names[name]
        case ast.IfExp():
            text = f"{_rendered(node.body, names)} | {_rendered(node.orelse, names)}"
        case ast.BinOp():
            text = _rendered(node.left, names) + _rendered(node.right, names)
        case _:
            text = f"{{{ast.unparse(node)}}}"
    return text
