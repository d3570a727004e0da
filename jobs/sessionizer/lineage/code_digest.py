"""The digest of the deciding code: each module of the package that can change a row, in a normal form.

A module decides unless it, or a package above it, assigns its reason to ``DECIDES_NO_ROW``. So a new module decides
until its author says otherwise. The normal form has what Python runs. Comments, docstrings, layout, imports for type
checkers and the names of local variables are not in it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable

PACKAGE: Final = "sessionizer"
_DECLARED: Final = re.compile(rb"^DECIDES_NO_ROW\b", re.MULTILINE)
_UNUSED: Final = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES: Final = (*_FUNCTIONS, *_COMPREHENSIONS)
_BINDING: Final[Mapping[type[ast.AST], str]] = {
    ast.Name: "id",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
    ast.alias: "asname",
    ast.arg: "arg",
}
"""Nodes that may bind a local variable, with the field that names it."""


@cache
def code_digest() -> str:
    """Digest the deciding code of this release, in a folder or in the archive that a cluster hands on."""
    return digest_of(files(PACKAGE))


@cache
def source_digest() -> str:
    """Digest the bytes of the same modules, 20 times as fast: if they are the same, so is the code."""
    return _digest((name, module.read_bytes()) for name, module in deciding_modules(files(PACKAGE)))


def digest_of(package: Traversable) -> str:
    """Digest the deciding modules of ``package`` as SHA-256 of their names and normal forms."""
    return _digest((name, normal_form(module.read_bytes())) for name, module in deciding_modules(package))


def deciding_modules(package: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield each deciding module with its path in ``package``, always in the same order."""
    entries = sorted(package.iterdir(), key=lambda each: each.name)
    if any(each.name == "__init__.py" and _DECLARED.search(each.read_bytes()) for each in entries):
        return
    for entry in entries:
        if entry.is_dir():
            yield from deciding_modules(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".py") and not _DECLARED.search(entry.read_bytes()):
            yield f"{above}{entry.name}", entry


def normal_form(source: bytes) -> bytes:
    """Return what Python runs of a module's ``source``. It is the same in each supported version of Python."""
    form: list[str] = []
    _add_form(form, ast.parse(source), {}, 0)
    return "\n".join(form).encode()


def _digest(modules: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in modules:
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _add_form(form: list[str], node: ast.AST, names: Mapping[str, str], depth: int) -> None:
    """Add the form of ``node``, which lies in ``depth`` scopes. ``names``: the numbers of local variables there."""
    if isinstance(node, ast.Constant):
        form.append(f"{type(node.value).__name__} {node.value!r}")
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring, or the text below a constant
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        for each in node.orelse:
            _add_form(form, each, names, depth)
        return
    if isinstance(node, _SCOPES):
        names, depth = _scope(node, names, depth), depth + 1
    named = _BINDING.get(type(node))
    form.append(type(node).__name__)
    for field, value in ast.iter_fields(node):
        if field in _UNUSED or value is None or value == []:
            continue
        form.append(field)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                _add_form(form, each, names, depth)
            else:
                form.append(names.get(each, each) if field == named else repr(each))
    form.append(".")


def _scope(node: ast.AST, outer: Mapping[str, str], depth: int) -> dict[str, str]:
    """Number the local variables of a function or comprehension by where they first appear.

    Parameters keep their names, because a call may use them. Those of a lambda do not.
    """
    kept = set[str]()
    if isinstance(node, _COMPREHENSIONS):
        found = [name for part in node.generators for name in _bound(part.target)]
    elif isinstance(node, ast.Lambda):
        found = _parameters(node.args)
    else:
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)  # noqa: S101  for the type checker
        shared = (each.names for each in ast.walk(node) if isinstance(each, ast.Global | ast.Nonlocal))
        kept.update(_parameters(node.args), *shared)
        found = [name for each in node.body for name in _bound(each) if name not in kept]
    inherited = {name: number for name, number in outer.items() if name not in kept}
    return {**inherited, **{name: f"local {depth}.{place}" for place, name in enumerate(dict.fromkeys(found))}}


def _parameters(arguments: ast.arguments) -> list[str]:
    return [each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg)]


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the local variables that ``node`` binds, without those of functions, classes and comprehensions in it."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return
    if isinstance(node, _COMPREHENSIONS):
        yield from (each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
        return
    named = getattr(node, _BINDING.get(type(node), ""), None)
    if named is not None and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
        yield named
    for each in ast.iter_child_nodes(node):
        yield from _bound(each)
