"""The digest of the deciding code: what changes it, and what leaves it the same."""

from __future__ import annotations

import ast
import random
import shutil
import zipfile
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

import sessionizer
from sessionizer.launch.installation import PackageArchive
from sessionizer.lineage.fingerprint import (
    code_digest,
    deciding_modules,
    digest_of,
    normal_form,
    present_fingerprint,
    source_digest,
)

PACKAGE = Path(sessionizer.__file__).parent
DRIVER = "spark/driver/driver_loop.py"
"""Where the decisions of a driver begin."""
DECIDES = dict(deciding_modules(PACKAGE))
DECIDES_NOT = ["cli/app.py", "stream_spec/effect.py", "redaction.py", "state/proof/result.py"]


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_bytes())


@cache
def form_of(module: str) -> bytes:
    return normal_form((PACKAGE / module).read_bytes())


def imported_by(module: str) -> set[str]:
    """The modules of the package that ``module`` imports, also inside functions, and the packages above them."""
    names = {
        name
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names))
    }
    places = ["/".join(name.split(".")[1:]) for name in names if name.split(".")[0] == PACKAGE.name]
    found = {file for place in places for file in (f"{place}.py", f"{place}/__init__.py".lstrip("/"))}
    return {file for file in found if (PACKAGE / file).is_file()}


def reached_by_the_driver() -> list[str]:
    reached, found = set[str](), {DRIVER}
    while found:
        reached |= found
        found = {each for module in found for each in imported_by(module)} - reached
    return sorted(reached)


def declaration_of(module: str) -> str | None:
    """The reason why ``module`` decides nothing: its own, or that of a package above it."""
    path = PACKAGE / module
    for place in (path, *(above / "__init__.py" for above in path.parents if PACKAGE in (above, *above.parents))):
        for node in ast.parse(place.read_bytes()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DECIDES_NO_ROW":
                return str(ast.literal_eval(node.value))
    return None


def test_each_module_of_a_driver_is_covered_or_says_why_not() -> None:
    reached = reached_by_the_driver()
    assert len(reached) > 120
    reasons = {module: declaration_of(module) for module in reached}
    assert {module for module, reason in reasons.items() if reason is None} == set(reached) & DECIDES.keys()
    assert all(len(reason.split()) >= 3 for reason in reasons.values() if reason is not None)
    assert {each for each in reached if each.startswith(("core/", "spark/sinks/", "spark/state/"))} <= DECIDES.keys()


@pytest.mark.parametrize("room", sorted({module.partition("/")[0] for module in DECIDES}))
def test_a_statement_less_in_any_module_changes_it(room: str) -> None:
    for module in (each for each in DECIDES if each.partition("/")[0] == room):
        for line, mutated in mutants((PACKAGE / module).read_text(), random.Random(module)):
            assert normal_form(mutated.encode()) != form_of(module), f"{module}:{line}"


def mutants(source: str, draw: random.Random) -> list[tuple[int, str]]:
    tree = ast.parse(source)
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef | ast.For | ast.With)]
    places = [
        (body.body, place)
        for body in bodies
        for place, each in enumerate(body.body)
        if not isinstance(each, ast.Expr | ast.Pass)
        and not (isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING")
    ]
    found = []
    for body, place in draw.sample(places, min(1, len(places))):
        left, body[place] = body[place], ast.Pass()
        found.append((left.lineno, ast.unparse(tree)))
        body[place] = left
    return found


def test_comments_docstrings_and_layout_are_not_in_it() -> None:
    for module in DECIDES:
        written = without_docstrings(tree_of(module))
        shown = f'"""Another text."""\n# a comment\n{written}\n\n# the end\n'
        assert normal_form(shown.encode()) == form_of(module), module


def without_docstrings(tree: ast.Module) -> str:
    tree = ast.parse(ast.unparse(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) and node.body[1:]:
            del node.body[0]
    return ast.unparse(tree)


FUNCTION = """
    def f(rows, *, limit=3):
        kept = []
        for row in rows:
            if (size := len(row)) > limit:
                kept.append(size)
        with open(kept[0]) as opened:
            first, *others = opened
        try:
            found = {key: value for key, value in others if key not in kept}
        except OSError as error:
            raise ValueError from error
        def inner(one):
            total = one + size
            return sorted(kept, key=lambda each: each[total])
        import numpy as n
        match first:
            case {"a": got, **rest}:
                return n.array([got, rest, inner(found)])
        return [x for x in rows for y in x if y]
"""


def renamed(name: str, to: str) -> str:
    """``FUNCTION`` with its local variable ``name`` called otherwise."""
    changed = Renamer(name, to).visit(ast.parse(dedent(FUNCTION)))
    return ast.unparse(changed)


class Renamer(ast.NodeTransformer):
    """Renames every identifier that is not an attribute, an argument's keyword or a parameter."""

    def __init__(self, name: str, to: str) -> None:
        self.name, self.to = name, to

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("id", "asname", "rest", "name"):
            is_own = field != "name" or isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar)
            if is_own and getattr(node, field, None) == self.name:
                setattr(node, field, self.to)
        if isinstance(node, ast.Lambda):
            for each in node.args.args:
                each.arg = self.to if each.arg == self.name else each.arg
        return super().generic_visit(node)


@pytest.mark.parametrize(
    "name",
    ["kept", "row", "size", "opened", "first", "others", "found", "key", "value", "error", "total", "each", "n", "got",
     "rest", "x", "y"],
)  # fmt: skip
def test_the_name_of_a_local_variable_is_not_in_it(name: str) -> None:
    before = ast.unparse(ast.parse(dedent(FUNCTION)))
    assert renamed(name, "another") != before
    assert normal_form(renamed(name, "another").encode()) == normal_form(before.encode())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(a): return a", "def f(b): return b"),  # a call may name it
        ("def f(): x = 1; y = 2; return x", "def f(): x = 1; y = 2; return y"),
        ("def f(): return g", "def f(): return h"),
        ("def f():\n global x\n x = 1", "def f():\n global y\n y = 1"),
        ("class A:\n x = 1", "class A:\n y = 1"),
        ("def f(a): return a.x", "def f(a): return a.y"),
        ("def f(): return g(x=1)", "def f(): return g(y=1)"),
        ("x = 1", "x = True"),
        ("x = '1'", "x = b'1'"),
        ("x = 1 < 2", "x = 1 <= 2"),
        ("f(a, [b])", "f([a], b)"),
        ("if a:\n b()\nelse:\n c()", "if a:\n b()\nc()"),
        ("def f():\n if a: return 1\n return 2", "def f():\n if a: pass\n return 2"),
    ],
)
def test_what_python_runs_is_in_it(before: str, after: str) -> None:
    assert normal_form(before.encode()) != normal_form(after.encode())


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__")))


def test_a_copy_elsewhere_has_the_same_until_a_module_changes_its_name(package: Path, tmp_path: Path) -> None:
    archive = PackageArchive(PACKAGE, tmp_path)
    archive.make()
    assert digest_of(zipfile.Path(archive.place, f"{PACKAGE.name}/")) == code_digest()
    for module in DECIDES_NOT:
        (package / module).write_text(f"{(package / module).read_text()}\nSTEP = 1\n")
    assert digest_of(package) == code_digest()
    (package / "migrations" / "one.py").write_text("STEP = 1\n")
    more = digest_of(package)
    (package / "migrations" / "one.py").rename(package / "migrations" / "two.py")
    assert len({code_digest(), more, digest_of(package)}) == 3


def test_the_code_of_a_fingerprint_is_parsed_only_if_its_sources_differ() -> None:
    present = present_fingerprint()
    assert (present.code, present.sources) == (code_digest(), source_digest())
    known = present.__class__("known", {}, sources=source_digest())
    assert present_fingerprint(known=known).code == "known"
    assert present_fingerprint(known=present.__class__("other", {}, sources="other")).code == code_digest()
