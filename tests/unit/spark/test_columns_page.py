"""The page of the tables: each column with its type and its comment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import StructType

from sessionizer.spark.sinks import table_shapes
from sessionizer.stream_spec.document.stream import StreamSpec
from support.places import REPOSITORY
from support.streams.stage import clicks_spec

if TYPE_CHECKING:
    import pyarrow as pa

    from sessionizer.spark.sinks.table_shapes import TableShape

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
