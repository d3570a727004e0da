"""The queries that ``sessionizer tables`` prints, run as a user pastes them."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

if TYPE_CHECKING:
    from support.processes.fabricated_platform import Platform

ROWS = pa.table({"reason": ["malformed", "malformed", "null_key"], "raw": ["{", "[", "{}"]})


@pytest.mark.parametrize("reader", ["duckdb", "polars"])
def test_the_pasted_query_answers(platform: Platform, reader: str) -> None:
    home = platform.add("visits")
    home.prepare()
    for _ in range(2):
        write_deltalake(str(home.table("quarantine")), ROWS, mode="append")
    found = {table["name"]: table for table in json.loads(platform.call("tables", "visits", "--json").stdout)["tables"]}
    assert found["quarantine"]["version"] == 1
    assert found["sessions"]["version"] is None
    assert f"delta.`{home.table('quarantine')}`" in found["quarantine"]["spark_sql"]
    answer = subprocess.run(
        ["bash", "-c", found["quarantine"][reader]], capture_output=True, text=True, check=True
    ).stdout
    assert "malformed" in answer
    assert "4" in answer
    assert found["quarantine"]["duckdb"] in platform.call("tables", "visits").stdout
