"""What is private in Spark, Delta and PySpark stands in one folder, and says which door it was when it is missing."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from traceback import format_exception

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql.types import StructType

from sessionizer.causes.table import cause_of_error
from sessionizer.errors import InvalidSpec, PrivateDoorBroken
from sessionizer.launch.driver_environment import PLAIN_SPARK, launch_settings, plain, session_settings
from sessionizer.launch.installation import jar_folder
from sessionizer.spark import session
from sessionizer.spark.failures.query_failure import classify_failure
from sessionizer.spark.internals.java_errors import door
from sessionizer.spark.sinks import table_shapes
from sessionizer.spark.sinks.table_shapes import SESSIONS_PROPERTIES, TableShape
from sessionizer.state.lineages.table_snapshot import parts_that_tell
from sessionizer.stream_spec.document.names import parse_duration, variable_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer_airflow.operating.approval import DEFAULTS as OF_APPROVALS
from sessionizer_airflow.supervision.policy import DEFAULTS as OF_SUPERVISION
from sessionizer_airflow.supervision.policy import DURATIONS, SupervisionPolicy
from support.places import REPOSITORY
from support.streams.stage import clicks_spec

JOBS = REPOSITORY / "jobs"
INTERNALS = JOBS / "sessionizer" / "spark" / "internals"
DECISION = REPOSITORY / "docs" / "adr" / "0070-private-spark-classes-stay-in-one-package.md"
PRIVATE_NAMES = {
    "_jvm", "_jsc", "_jdf", "_jc", "_jsparkSession", "_jwrite", "_jreader", "_jq", "_jsqm", "_sc", "_gateway",
    "_gateway_client", "_statefulProcessorApiClient", "_client_socket", "_streamingCheckpointManager",
}  # fmt: skip
PRIVATE_MODULES = ("py4j", "pyspark.sql.classic", "pyspark.worker", "pyspark.daemon", "pyspark.java_gateway")
PUBLIC_CLASSES = ("org.apache.spark.sql.delta.catalog.DeltaCatalog",)
"""As Delta's guide has them set."""
PRIVATE_CLASSES = ("org.apache.spark.sql.catalyst", "org.apache.spark.sql.classic", "org.apache.spark.sql.delta")
SHARED_BY_DOORS = ("__init__", "java_class", "java_errors")
"""Files that are no door: every door uses them."""


def uses_in(file: Path) -> Iterator[str]:
    """What is private in the code of a file; what its comments say is not."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE_NAMES:
            yield node.attr
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (name for name in names if f"{name}.".startswith(tuple(f"{one}." for one in PRIVATE_MODULES)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in PUBLIC_CLASSES:
            yield from [node.value] if node.value.startswith(PRIVATE_CLASSES) else []


def test_nothing_outside_the_door_uses_what_is_private() -> None:
    outside = [file for file in JOBS.rglob("*.py") if INTERNALS not in file.parents]
    assert len(outside) > 100
    assert {str(file.relative_to(JOBS)): uses for file in outside if (uses := [*uses_in(file)])} == {}


def test_what_it_looks_for_is_what_stands_behind_the_door() -> None:
    uses = {use for file in INTERNALS.glob("*.py") for use in uses_in(file)}
    assert {"_jvm", "_jsc", "_jdf", "_jc", "_jsparkSession", "_gateway", "_client_socket"} <= uses
    assert {"py4j.java_gateway", "pyspark.sql.classic.column"} <= uses


def test_each_door_says_what_is_private_what_is_public_and_what_is_lost_and_the_decision_lists_it() -> None:
    doors = [file for file in INTERNALS.glob("*.py") if file.stem not in SHARED_BY_DOORS]
    assert len(doors) >= 10
    for file in doors:
        said = ast.get_docstring(ast.parse(file.read_text())) or ""
        assert all(f"**{word}**: " in said for word in ("Private", "Public", "Lost")), file.name
    listed = re.findall(r"^\| `(\w+)` \|", DECISION.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(file.stem for file in doors)


@pytest.mark.parametrize(
    "missing",
    [
        AttributeError("'JavaMember' object has no attribute 'lastExecution'"),
        ImportError("No module named 'pyspark.sql.classic'"),
        TypeError("'JavaPackage' object is not callable"),
        Py4JError("An error occurred while calling o1.f. Trace:\npy4j.Py4JException: Method f([]) does not exist"),
    ],
)
def test_what_is_missing_is_told_with_its_door_and_the_way_on(missing: Exception) -> None:
    with pytest.raises(PrivateDoorBroken) as caught, door("task counts"):
        raise missing
    assert caught.value.door == "task counts"
    assert caught.value.missing in str(missing) or type(missing).__name__ in caught.value.missing
    assert "Trace" not in caught.value.missing
    assert "SESSIONIZER_PLAIN_SPARK=1" in cause_of_error(caught.value).remedy


@pytest.mark.parametrize("error", [ValueError("ours"), Py4JNetworkError("the JVM is gone"), Py4JError("it failed")])
def test_what_fails_for_another_reason_passes_the_door(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, door("task counts"):
        raise error
    assert caught.value is error


def test_a_query_that_dies_of_a_broken_door_is_not_tried_again() -> None:
    broken = PrivateDoorBroken("task counts", "Method f([]) does not exist")
    ended = classify_failure("clicks", RuntimeError(f"Return Message: {''.join(format_exception(broken))}"))
    assert (type(ended).__name__, getattr(ended, "cause", None)) == ("QueryFailed", "private_door")


def test_the_switch() -> None:
    assert [plain({}), plain({PLAIN_SPARK: ""}), plain({PLAIN_SPARK: "0"}), plain({PLAIN_SPARK: "1"})] == [
        False, False, False, True,
    ]  # fmt: skip
    with pytest.raises(InvalidSpec, match="SESSIONIZER_PLAIN_SPARK is 'yes'"):
        plain({PLAIN_SPARK: "yes"})


def test_the_parts_of_a_log_that_tell_all() -> None:
    def commits(*versions: int) -> list[str]:
        return [f"{version:020}.json" for version in versions]

    def checkpoint(version: int, rest: str = "") -> str:
        return f"{version:020}.checkpoint{rest}.parquet"

    assert parts_that_tell(commits(0, 1)) == commits(0, 1)
    assert parts_that_tell([]) == []
    known = [*commits(1, 2, 3, 4), checkpoint(2), checkpoint(3), f"{3:020}.crc", "_last_checkpoint"]
    assert parts_that_tell(known) == [checkpoint(3), *commits(4)]
    halves = [f".{part:010}.{2:010}" for part in (1, 2)]
    cut_short = [*commits(1, 2, 3), checkpoint(1), checkpoint(2, halves[0])]
    assert parts_that_tell(cut_short) == [checkpoint(1), *commits(2, 3)]
    assert parts_that_tell([*cut_short, checkpoint(2, halves[1])]) == [
        *(checkpoint(2, half) for half in halves), *commits(3),
    ]  # fmt: skip
    by_uuid = checkpoint(2, ".80a083e8-7026-4e79-81be-64bd76c43a11")
    assert parts_that_tell([*commits(2, 3), by_uuid, by_uuid.replace("parquet", "json")])[-1] == commits(3)[0]


DEFAULTS = OF_SUPERVISION | OF_APPROVALS
PAGE = REPOSITORY / "docs" / "settings.md"
OF_POLICY = {variable_of(field.name.removesuffix("_ms")): field.default for field in fields(SupervisionPolicy)}
OF_SESSIONS = session.EXACTNESS | session.DELTA | session.THROUGHPUT | session.BUSY_MACHINE | session.BOUNDED_MEMORY
OF_SESSIONS |= session.driver_metrics("clicks")
LOCAL = launch_settings(jar_folder()) | session_settings() | session.class_path("local[2]")
LOCAL |= {"spark.ui.showConsoleProgress": "false"}


def rows() -> dict[str, str]:
    cells = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {name: value for named, value, *_ in cells for name in re.findall(r"`([^`]+)`", named)}


def variables_of(*folders: str) -> set[str]:
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py")]
    found = {name for path in files for name in re.findall(r"\bSESSIONIZER_[A-Z_]*[A-Z]\b", path.read_text())}
    return found | set(OF_POLICY) | set(DEFAULTS)


def test_every_variable_is_on_the_page_and_no_other() -> None:
    on_the_page = {name for name in rows() if name.startswith("SESSIONIZER_")}
    assert variables_of("jobs", "plugins", "demo", "dags", "tests") == on_the_page


WAITS = [variable_of(name.removesuffix("_ms")) for name in DURATIONS]


@pytest.mark.parametrize("name", dict.fromkeys([*DEFAULTS, *WAITS]))
def test_what_an_installation_sets_and_how_long_the_supervisor_waits(name: str) -> None:
    if name in WAITS:
        assert parse_duration(rows()[name]) == OF_POLICY[name]
    if name in DEFAULTS:
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
    table_shapes.open_sessions_shape(table_shapes.sessions_shape(SPEC, NO_PAYLOAD, StructType())),
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
