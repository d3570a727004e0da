"""Every type of Parquet by every type that a spec declares: the values are right, or the file is put aside."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from sessionizer.errors import SourceFileUnfit
from sessionizer.spark.ingest.file_source.unfit_files import find_unfit_column
from sessionizer.spark.ingest.source import read_source
from sessionizer.spark.internals.java_errors import JavaError
from sessionizer.spark.internals.trying import try_expression
from sessionizer.stream_spec.document.source import FilesSource
from support.expected.landed import table_rows
from support.processes.driver_process import run_to_end
from support.streams.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY_US = 86_400_000_000
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, 127]),
    "int16": (pa.int16(), [-32_768, 32_767]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "uint8": (pa.uint8(), [1, 255]),
    "uint16": (pa.uint16(), [1, 65_535]),
    "uint32": (pa.uint32(), [1, 2**32 - 1]),
    "uint64": (pa.uint64(), [1, 2**64 - 1]),
    "float": (pa.float32(), [1.5, -2.5]),
    "double": (pa.float64(), [1.5, -2.5]),
    "decimal": (pa.decimal128(20, 0), [Decimal(10**19), Decimal(-1)]),
    "ms": (pa.timestamp("ms", "UTC"), [0, DAY_US // 1_000]),
    "us": (pa.timestamp("us", "UTC"), [0, DAY_US]),
    "ns": (pa.timestamp("ns", "UTC"), [0, DAY_US * 1_000]),
    "local ns": (pa.timestamp("ns"), [0, DAY_US * 1_000]),
    "category": (pa.dictionary(pa.int32(), pa.uint32()), [1, 2**32 - 1]),
    "time": (pa.time64("us"), [0, 5]),
    "duration": (pa.duration("us"), [0, 5]),
    "text": (pa.string(), ["a", "b"]),
    "bytes": (pa.binary(), [b"a", b"b"]),
    "flag": (pa.bool_(), [True, False]),
}
WHOLE = ("tinyint", "smallint", "int", "bigint")
"""Types of whole numbers that a spec may declare."""
UNREAD = ("float", "flag")
"""Types that none of the declared ones takes."""
OTHERS = ("double", "decimal(20,0)", "timestamp", "date", "string")
PLACES = {"v": "v", "s.v": "s struct<v: {}>", "vs[0]": "vs array<{}>", "m['k']": "m map<string, {}>"}


def write(folder: Path, kind: pa.DataType, values: list[Any], *, dictionary: bool) -> None:
    column = pa.array(values, kind)
    single = pa.ListArray.from_arrays(list(range(len(values) + 1)), column)
    by_key = pa.MapArray.from_arrays(list(range(len(values) + 1)), ["k"] * len(values), column)
    columns = {"v": column, "s": pa.StructArray.from_arrays([column], ["v"]), "vs": single, "m": by_key}
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"n": list(range(len(values))), **columns}), folder / "1.parquet", use_dictionary=dictionary
    )


def read(spark: SparkSession, folder: Path, declared: str, place: str) -> list[Any] | None:
    """The values as an expression has them, None if the file is refused by name."""
    column = {"v": f"v {declared}"}.get(place, PLACES[place].format(declared))
    source = FilesSource(format="files", path=str(folder), encoding="parquet", columns=f"n bigint, {column}")
    shown = f"unix_micros(cast({place} as timestamp))" if declared.startswith("timestamp") else place
    try:
        rows = read_source(spark, source, folder, 9_999, stream=False)
        found = rows.select("n", try_expression(rows, shown).alias("shown")).collect()
    except SourceFileUnfit:
        return None
    except (PySparkException, JavaError) as error:
        if "FAILED_READ_FILE" not in str(error):
            raise
        return None
    return [row["shown"] for row in sorted(found, key=lambda row: int(row["n"]))]


@pytest.mark.parametrize("dictionary", [True, pytest.param(False, marks=pytest.mark.long)], ids=["dictionary", "plain"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_right_or_its_file_is_refused(
    spark: SparkSession, tmp_path: Path, kind: str, dictionary: bool
) -> None:
    arrow, values = KINDS[kind]
    folder = tmp_path / "feed"
    write(folder, arrow, values, dictionary=dictionary)
    # milliseconds as a moment, and bytes as a text, are shown in another way
    right = (values, [value * 1_000 for value in values] if kind == "ms" else ["a", "b"], None)
    asked = [(declared, place) for declared in WHOLE for place in (PLACES if kind.startswith("uint") else ["v"])]
    asked += [(declared, "v") for declared in OTHERS]
    found = {each: read(spark, folder, *each) for each in asked}
    assert {each: values for each, values in found.items() if values not in right} == {}
    assert any(found.values()) or kind in UNREAD


@pytest.mark.parametrize(
    ("declared", "found", "problem"),
    [
        ("n int", "n bigint", "n has values of type bigint where source.columns has int. Declare it bigint"),
        ("s struct<a: array<int>>", "S struct<A: array<bigint>>", "s.a[] has values of type bigint where"),
        ("m map<string, smallint>", "m map<string, int>", "m[] has values of type int where"),
        ("n double", "n decimal(20,0)", "n has values of type decimal(20,0) where source.columns has double"),
        ("n bigint, t timestamp", "n int, t timestamp, more string", None),
        ("n int", "other bigint", None),
    ],
)
def test_a_column_that_does_not_hold_its_values_is_named(declared: str, found: str, problem: str | None) -> None:
    said = find_unfit_column(StructType.fromDDL(declared), StructType.fromDDL(found))
    assert said is problem is None or (problem is not None and str(said).startswith(problem))


def test_files_that_spark_would_read_wrongly_are_put_aside(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "source": {"format": "files", "path": "feed", "encoding": "parquet", "options": {"maxFilesPerTrigger": 1}},
        "mapping": {
            "key": "user",
            "event_time": "timestamp_millis(ts)",
            "event_id": "id",
            "payload": {"n": "n", "v": "s.v"},
        },
        "measures": {"items": "sum(n)"},
    }
    spec["source"]["columns"] = "user string, ts bigint, id string, n bigint, s struct<v: bigint>"
    stage = Stage.set_up(tmp_path, spec)

    def feed(name: str, rows: int, **kinds: pa.DataType) -> bytes:
        table = pa.table({
            "user": ["ann"] * rows,
            "ts": [1_714_557_600_000 + n for n in range(rows)],
            "id": [f"{name}{n}" for n in range(rows)],
            "n": pa.array([5] * rows, kinds.get("n", pa.int64())),
            "s": pa.array([{"v": n % 3} for n in range(rows)], pa.struct([("v", kinds.get("v", pa.int64()))])),
        })  # fmt: skip
        pq.write_table(table, stage.feed / f"{name}.parquet", compression="none")
        return (stage.feed / f"{name}.parquet").read_bytes()

    feed("a", 3, n=pa.uint32())
    feed("b", 3, n=pa.uint64())
    feed("c", 3, v=pa.uint64())
    # the run of 200 places in the dictionary of one value
    run = feed("d", 200)
    assert run.count(b"\x90\x03\x00") >= 1
    (stage.feed / "d.parquet").write_bytes(run.replace(b"\x90\x03\x00", b"\x90\x03\x07"))
    feed("e", 3)
    # Spark lists these two, though no other file with such a name
    (stage.feed / "_metadata").write_bytes(b"")
    (stage.feed / "_common_metadata").write_bytes((stage.feed / "e.parquet").read_bytes())

    run_to_end(stage, "a")

    aside = {row["source_position"][-9:]: row["raw"] for row in table_rows(stage.table("quarantine"))}
    assert set(aside) == {"b.parquet", "c.parquet", "d.parquet"}
    assert all("decimal(20,0)" in aside[name] for name in ("b.parquet", "c.parquet"))
    assert [(row["event_count"], row["items"]) for row in table_rows(stage.table("sessions"))] == [(6, 30)]
