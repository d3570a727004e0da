"""Names that tests replace in our modules are there. A long test would otherwise fail weeks after a rename."""

import ast
from collections.abc import Iterator
from pathlib import Path

from support.places import REPOSITORY

ROOTS = [REPOSITORY / root for root in ("jobs", "plugins", "demo", "tests")]
PATCHES = {"setattr", "delattr", "patch"}


def test_each_name_that_is_replaced_is_there() -> None:
    files = [file for file in (REPOSITORY / "tests").rglob("*.py") if "__pycache__" not in file.parts]
    replaced = {(file.name, module, name) for file in files for module, name in replaced_names(file)}
    assert len(replaced) > 50
    assert {(*where, name) for *where, name in replaced if name not in names_of(module_file(where[1]))} == set()


def replaced_names(file: Path) -> Iterator[tuple[str, str]]:
    """The module of ours and the name in it, of each replacement in a file of tests."""
    tree = ast.parse(file.read_text())
    modules = imported_modules(tree)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and called(node) in PATCHES):
        match call.args:
            case [ast.Constant(value=str(dotted)), *_] if dotted.startswith("sessionizer"):
                yield module_and_name(dotted)
            case [ast.Name(id=module), ast.Constant(value=str(name)), *_] if module in modules:
                yield modules[module], name


def imported_modules(tree: ast.Module) -> dict[str, str]:
    """The modules of ours that a file imports, by the names that it has for them."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    found = {each.asname or each.name: f"{node.module}.{each.name}" for node in imports for each in node.names}
    return {name: module for name, module in found.items() if is_module(module)}


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def module_and_name(dotted: str) -> tuple[str, str]:
    parts = dotted.split(".")
    length = next(n for n in range(len(parts), 0, -1) if is_module(".".join(parts[:n])))
    return ".".join(parts[:length]), parts[length]


def is_module(dotted: str) -> bool:
    return any(file.is_file() for file in candidates(dotted))


def module_file(dotted: str) -> Path:
    return next(file for file in candidates(dotted) if file.is_file())


def candidates(dotted: str) -> Iterator[Path]:
    for root in ROOTS:
        place = root.joinpath(*dotted.split("."))
        yield place.with_suffix(".py")
        yield place / "__init__.py"


def names_of(file: Path) -> set[str]:
    """The names that a module binds, wherever it does so."""
    bound: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                bound.add(node.name)
            case ast.Import() | ast.ImportFrom():
                bound.update((each.asname or each.name).split(".")[0] for each in node.names)
            case ast.Name(ctx=ast.Store()):
                bound.add(node.id)
    return bound
