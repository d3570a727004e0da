"""Names that tests replace in our modules are read there. Otherwise a test would replace nothing, and still pass."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from support.places import REPOSITORY

ROOTS = [REPOSITORY / root for root in ("jobs", "plugins", "demo", "tests")]
PATCHES = {"setattr", "delattr", "patch"}


def test_each_name_that_is_replaced_is_read_there() -> None:
    files = [file for file in (REPOSITORY / "tests").rglob("*.py") if "__pycache__" not in file.parts]
    replaced = {(file.name, module, name) for file in files for module, name in replaced_names(file)}
    assert len(replaced) > 50
    assert {each for each in replaced if each[2] not in names_read(module_file(each[1]))} <= {
        # imported by the function that calls it
        ("test_cli_without_spark.py", "sessionizer.spark.sinks.examine", "examine")
    }


def replaced_names(file: Path) -> Iterator[tuple[str, str]]:
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


def names_read(file: Path) -> set[str]:
    names = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Load)}


ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("jobs/sessionizer", "plugins/sessionizer_airflow")
NAMED_BY_OTHERS = (
    "jobs/sessionizer/cli/",  # a function of a command has the command's name
    "jobs/sessionizer/migrations/versions/",  # functions of a revision
    "jobs/sessionizer/page/app.py",  # routes
    "plugins/sessionizer_airflow/pages/app.py",  # routes
    "plugins/sessionizer_airflow/listener/",  # Airflow's hooks
)


def test_no_two_modules_define_one_public_name() -> None:
    places = defaultdict(set)
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        for each in ast.parse(path.read_text()).body:
            is_ours = isinstance(each, ast.ClassDef) or not module.startswith(NAMED_BY_OTHERS)
            if isinstance(each, ast.ClassDef | ast.FunctionDef) and is_ours and not each.name.startswith("_"):
                places[each.name].add(module)
    assert len(places) > 1_000
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


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
