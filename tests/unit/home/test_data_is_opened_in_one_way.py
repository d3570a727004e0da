"""Files of the data root are opened through their paths' own methods, and Spark is given URIs: the source says so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from support.places import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JOBS: Final = REPOSITORY / "jobs" / "sessionizer"
PLUGIN: Final = REPOSITORY / "plugins" / "sessionizer_airflow"
DATA: Final = {
    "checkpoint", "punctuations", "lineages", "tables", "table", "savepoints", "bookmarks", "bookmark", "data",
    "offset_log", "commit_log", "source_log",
}  # fmt: skip
"""Names of what is below the data root: properties and functions of the home, and what they are called elsewhere."""
OPENING: Final = {"open", "listdir", "scandir", "remove", "rename", "unlink", "rmtree", "copyfile", "copytree", "copy"}
"""Functions that only take what is mounted here."""
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


def test_airflow_names_nothing_below_the_data_root() -> None:
    """Where its tables are it asks ``table_locations``; who looks at savepoints asks where the data is."""
    uses = {
        f"{file.relative_to(PLUGIN)}:{node.lineno}": node.attr
        for file in PLUGIN.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in READ_BY_AIRFLOW
    }
    assert uses == {}
