"""The Delta table ``proof`` of a stream: a row for each table and each kind of difference of every proof."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.roots import uri_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.proof.result import JudgedDifference, Proof, TableProof

NAME: Final = "proof"
COLUMNS: Final = (
    "proof_id string, proved_at timestamp, lineage string, first_batch bigint, last_batch bigint, verdict string, "
    "table_name string, kind string, columns array<string>, rows bigint, explained_by array<string>, samples string"
)


def add_to_proof_table(spark: SparkSession, home: StreamHome, proof: Proof) -> str:
    """Append the result, and return the place of the table. ``kind`` is ``identical`` for the rows that are equal."""
    location = uri_of(home.table(NAME))
    rows = spark.createDataFrame(list(_rows(proof)), COLUMNS)
    rows.coalesce(1).write.format("delta").mode("append").save(location)
    return location


def _rows(proof: Proof) -> Iterator[tuple[Any, ...]]:
    moment = datetime.fromtimestamp(proof.at / 1000, UTC)
    of_proof = (proof.id, moment, proof.lineage, proof.first, proof.last, str(proof.verdict))
    for table in proof.tables:
        yield (*of_proof, table.table, "identical", [], table.identical, [], "[]")
        yield from ((*of_proof, *_difference(table, judged)) for judged in table.differences)


def _difference(table: TableProof, judged: JudgedDifference) -> tuple[Any, ...]:
    found = judged.difference
    samples = json.dumps([asdict(sample) for sample in found.samples], ensure_ascii=False)
    return table.table, str(found.kind), list(found.columns), found.rows, list(judged.explained_by), samples
