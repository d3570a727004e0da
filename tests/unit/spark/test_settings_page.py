"""The page of settings: none missing, none made up, no default out of date."""

import re
from dataclasses import fields
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from sessionizer.launch.driver_environment import launch_settings, session_settings
from sessionizer.launch.installation import jar_folder
from sessionizer.spark import session
from sessionizer.spark.sinks import table_shapes
from sessionizer.spark.sinks.table_shapes import SESSIONS_PROPERTIES, TableShape
from sessionizer.stream_spec.document.names import parse_duration, variable_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer_airflow.operating.approval import DEFAULTS as OF_APPROVALS
from sessionizer_airflow.supervision.policy import DEFAULTS as OF_SUPERVISION
from sessionizer_airflow.supervision.policy import DURATIONS, SupervisionPolicy
from support.places import REPOSITORY
from support.streams.stage import clicks_spec

DEFAULTS = OF_SUPERVISION | OF_APPROVALS
PAGE = REPOSITORY / "docs" / "settings.md"
OF_POLICY = {variable_of(field.name.removesuffix("_ms")): field.default for field in fields(SupervisionPolicy)}
OF_SESSIONS = session.EXACTNESS | session.DELTA | session.THROUGHPUT | session.BUSY_MACHINE | session.BOUNDED_MEMORY
OF_SESSIONS |= session.driver_metrics("clicks")
LOCAL = {
    **launch_settings(jar_folder()),
    **session_settings(),
    **session.class_path("local[2]"),
    "spark.ui.showConsoleProgress": "false",
}


def rows() -> dict[str, str]:
    """Each setting, and what the page shows as its value."""
    cells = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {name: value for named, value, *_ in cells for name in re.findall(r"`([^`]+)`", named)}


def variables_of(*folders: str) -> set[str]:
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    found = {name for path in files for name in re.findall(r"\bSESSIONIZER_[A-Z_]*[A-Z]\b", _text(path))}
    return found | set(OF_POLICY) | set(DEFAULTS)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_variable_is_on_the_page_and_no_other() -> None:
    on_the_page = {name for name in rows() if name.startswith("SESSIONIZER_")}
    assert variables_of("jobs", "plugins", "demo", "dags", "tests") == on_the_page


@pytest.mark.parametrize("name", [variable_of(name.removesuffix("_ms")) for name in DURATIONS])
def test_how_long_the_supervisor_waits(name: str) -> None:
    assert parse_duration(rows()[name]) == OF_POLICY[name]


@pytest.mark.parametrize("name", DEFAULTS)
def test_what_else_an_installation_sets(name: str) -> None:
    assert rows()[name].strip("`") == DEFAULTS[name]


@pytest.mark.parametrize("name", [*OF_SESSIONS, *LOCAL])
def test_every_setting_of_spark_is_on_the_page(name: str) -> None:
    value, shown = {**OF_SESSIONS, **LOCAL}[name], rows()[name]
    if shown.startswith("`"):
        assert shown.strip("`") == value


def test_every_property_of_a_table_is_on_the_page() -> None:
    named = {re.sub(r"#.*", "#COLUMN", name) for name in SESSIONS_PROPERTIES}
    assert named <= set(rows())


SPEC = StreamSpec.model_validate({**clicks_spec(), "name": "clicks"})
NO_PAYLOAD: list[pa.Field] = []
SHAPES = [
    table_shapes.sessions_shape(SPEC, NO_PAYLOAD, StructType()),
    table_shapes.quarantine_shape(),
    table_shapes.late_events_shape(StructType()),
    table_shapes.sessions_daily_shape(StructType()),
    table_shapes.stream_history_shape(),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_column_has_its_row(shape: TableShape) -> None:
    page = (REPOSITORY / "docs" / "tables.md").read_text()
    section = page.partition(f"### `{shape.name}`\n")[2].partition("\n#")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [
        f"| `{column.name}` | {column.dataType.simpleString()} | {column.metadata['comment']} |"
        for column in shape.columns
    ]
