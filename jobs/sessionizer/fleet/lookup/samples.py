"""Refused rows of a stream: counts by reason over a time, and the newest rows of each. From the table, without Spark.

JSON (times are epoch ms)::

    {"stream": "clicks", "since": 1790000000000, "reasons": [
      {"reason": "malformed", "count": 12, "newest": 1790000100000, "rows": [
        {"raw": "{...", "source_position": "clicks-3-17", "lineage": "...", "batch_id": 8, "quarantined_at": 17900001}
      ]}], "complete": true, "tables": {"quarantine": {"files_read": 2, "files": 2, "complete": true}}}

The reason with the most rows comes first. Without ``complete`` the counts are those of the files that were read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sessionizer.fleet.lookup.find import ORDER
from sessionizer.fleet.lookup.table_scan import WITHIN_S, TableScan, begin, rows_of
from sessionizer.home.names import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sessionizer.home.json_record import JsonObject

ROWS: Final = 3
"""Rows of each reason."""
RAW_SHOWN: Final = 500
"""Characters of a row that are shown."""
_AT: Final = ORDER[QUARANTINE]
_ROW: Final = ("raw", "source_position", "lineage", "batch_id", _AT)


def read_refused_rows(
    stream: str, locations: Mapping[str, str], since_ms: int, *, within_s: float = WITHIN_S
) -> JsonObject:
    """Return the refused rows since then (epoch ms). No file is opened after ``within_s`` seconds.

    Raises LookupNotInstalled, OSError.
    """
    scan = TableScan(locations[QUARANTINE], _AT, begin(within_s))
    import pyarrow.compute as pc  # noqa: PLC0415  of an extra

    wanted = pc.field(_AT) >= datetime.fromtimestamp(since_ms / 1000, UTC)
    found: dict[str, JsonObject] = {}

    def read(rows: pa.Table) -> None:
        for reason, count in _counts(rows).items():
            told = found.setdefault(reason, {"reason": reason, "count": 0, "rows": []})
            told["count"] += count
            told["rows"] = _newest([*told["rows"], *_sample(rows, reason)])

    extent = scan.visit(lambda file: read(file.read(("reason", *_ROW), wanted)), wanted)
    reasons = [{**told, "newest": told["rows"][0][_AT]} for told in found.values()]
    return {
        "stream": stream,
        "since": since_ms,
        "reasons": sorted(reasons, key=lambda told: -told["count"]),
        "complete": extent.is_complete,
        "tables": {QUARANTINE: extent.to_json()},
    }


def _counts(rows: pa.Table) -> Mapping[str, int]:
    counted = rows.column("reason").value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in counted}


def _sample(rows: pa.Table, reason: str) -> list[JsonObject]:
    import pyarrow.compute as pc  # noqa: PLC0415  of an extra

    ours = rows.filter(pc.equal(rows.column("reason"), reason)).sort_by([(_AT, "descending")])
    told = rows_of(ours.slice(0, ROWS).select(_ROW))
    return [{**row, "raw": row["raw"] and row["raw"][:RAW_SHOWN]} for row in told]


def _newest(rows: list[JsonObject]) -> list[Any]:
    return sorted(rows, key=lambda row: -row[_AT])[:ROWS]
