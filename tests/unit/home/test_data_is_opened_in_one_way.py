"""Files of the data root are opened through their paths' own methods, and Spark is given URIs: the source says so."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sessionizer.home.stream_home import LineageHome
from support.places import REPOSITORY

JOBS: Final = REPOSITORY / "jobs" / "sessionizer"
PLUGIN: Final = REPOSITORY / "plugins" / "sessionizer_airflow"
DATA: Final = {
    "checkpoint", "punctuations", "lineages", "tables", "table", "savepoints", "bookmarks", "bookmark", "data",
    "offset_log", "commit_log", "source_log",
}  # fmt: skip
"""Names of what is below the data root: properties and functions of the home, and what they are called elsewhere."""
OPENING: Final = {"open", "listdir", "scandir", "remove", "rename", "unlink", "rmtree", "copyfile", "copytree", "copy"}
"""Functions that only take what is mounted here."""
CONTROL: Final = {
    "control", "leases", "lineage_records", "records", "lineage_record", "history",
    *(name for name in vars(LineageHome) if not name.startswith("_")),
} - DATA - {"root", "no_events", "first_log", "rehearsal"}  # fmt: skip
"""Names of what is below the control root."""
METHODS: Final = {
    "exists", "is_dir", "is_file", "iterdir", "glob", "rglob", "mkdir", "unlink", "rmdir", "rename", "replace", "touch",
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "stat",
}  # fmt: skip
READ_BY_AIRFLOW: Final = {"checkpoint", "punctuations", "lineages", "table", "tables", "bookmarks"}


def named(node: ast.AST) -> str:
    """What an expression ends in: the last name of ``home.checkpoint(lineage)``."""
    match node:
        case ast.Call():
            return named(node.func)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return node.id
        case ast.BinOp(op=ast.Div()):
            return named(node.left)
    return ""


def other_ways(file: Path) -> Iterator[str]:
    """Where a file opens, or names to Spark or people, what is below the data root in another way."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FormattedValue) and named(node.value) in DATA - {"data", "table"}:
            yield f"{node.lineno}: text of {named(node.value)}"
        if not isinstance(node, ast.Call):
            continue
        of_data = [named(argument) for argument in node.args if named(argument) in DATA]
        if of_data and named(node.func) in {"str", "Path", "fspath"} and isinstance(node.func, ast.Name):
            yield f"{node.lineno}: {named(node.func)}({of_data[0]})"
        if of_data and named(node.func) in OPENING and not isinstance(node.func, ast.Call):
            yield f"{node.lineno}: {named(node.func)}({of_data[0]})"


def test_nothing_below_the_data_root_is_opened_in_another_way() -> None:
    files = list(JOBS.rglob("*.py"))
    assert len(files) > 100
    assert {str(file.relative_to(JOBS)): ways for file in files if (ways := [*other_ways(file)])} == {}


def test_another_way_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "driver.py"
    file.write_text(
        "open(home.checkpoint(lineage) / 'metadata')\n"
        "reader.load(str(home.tables))\n"
        "os.listdir(offset_log(checkpoint))\n"
        "say(f'at {home.punctuations(lineage)}')\n"
        "uri_of(home.checkpoint(lineage)); (checkpoint / 'metadata').open('rb')\n"
    )
    assert {way.partition(":")[0] for way in other_ways(file)} == {"1", "2", "3", "4"}


def own_ways(file: Path) -> Iterator[str]:
    """Where a file opens, lists or removes a record by a method of its path: of a store that has no limit."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of, method = named(node.func.value), node.func.attr
            if of in CONTROL and method in METHODS:
                yield f"{node.lineno}: {of}.{method}"


def test_records_are_opened_by_the_functions_of_the_control_root_alone() -> None:
    files = [*JOBS.rglob("*.py"), *PLUGIN.rglob("*.py")]
    assert {str(file): ways for file in files if (ways := [*own_ways(file)])} == {}


def test_a_method_of_a_record_would_be_seen(tmp_path: Path) -> None:
    file = tmp_path / "watch.py"
    file.write_text(
        "home.control.exists()\n"
        "list(home.leases.iterdir())\n"
        "(home.history / name).unlink()\n"
        "(home.lineage_records / name).read_text()\n"
        "is_there(home.control); home.logs.iterdir()\n"
    )
    assert {way.partition(":")[0] for way in own_ways(file)} == {"1", "2", "3", "4"}


def test_where_control_is_one_place_asks() -> None:
    """All others ask ``StreamHome.of``; who made a home by itself would look for records where there are none."""
    made = {
        file.name
        for file in [*JOBS.rglob("*.py"), *PLUGIN.rglob("*.py")]
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "StreamHome"
    }
    assert made == set()


def test_airflow_names_nothing_below_the_data_root() -> None:
    """Where its tables are it asks ``table_locations``; who looks at savepoints asks where the data is."""
    uses = {
        f"{file.relative_to(PLUGIN)}:{node.lineno}": node.attr
        for file in PLUGIN.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in READ_BY_AIRFLOW
    }
    assert uses == {}
