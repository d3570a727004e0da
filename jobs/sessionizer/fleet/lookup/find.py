"""Answers to "where is this key?" and "where did this event go?", from the tables of a stream. No Spark.

JSON of the answer about a key (times are epoch ms)::

    {"stream": "clicks", "key": "alice", "open": ANSWER or null, "closed": [SESSION], "late": [LATE],
     "tables": {"sessions": EXTENT, "late_events": EXTENT}, "complete": true, "says": "..."}

JSON of the answer about an event::

    {"stream": "clicks", "event": "e-17", "where": ["sessions"], "sessions": [SESSION], "quarantine": [REFUSED],
     "late": [LATE], "tables": {"sessions": EXTENT, ...}, "complete": true, "says": "..."}

- ANSWER: the driver's answer (``control.records.driver_records``): its ``sessions`` have ``would_end_at`` and
  ``would_close_reason``. null if no driver answered
- SESSION: ``session_id``, ``key``, ``client``, ``started_at``, ``ended_at``, ``event_count``, ``close_reason``,
  ``lineage``, ``batch_id``, ``emitted_at``
- LATE: ``key``, ``event_id``, ``event_time``, ``lineage``, ``batch_id``, ``noticed_at``
- REFUSED: ``reason``, ``raw``, ``source_position``, ``lineage``, ``batch_id``, ``quarantined_at``
- EXTENT: ``files_read``, ``files``, ``complete``. False if the time was over before all files were read

``where`` is empty for an event that no table has. It is then in an open session, it was dropped as a duplicate, which
no table keeps, or it was not read yet. ``says`` says so. Open sessions are in the state, which only Spark reads:
``ask_driver`` asks the live driver for those of a key.

Refused rows of a stream: counts by reason over a time, and the newest rows of each. From the table, without Spark.

JSON (times are epoch ms)::

    {"stream": "clicks", "since": 1790000000000, "reasons": [
      {"reason": "malformed", "count": 12, "newest": 1790000100000, "rows": [
        {"raw": "{...", "source_position": "clicks-3-17", "lineage": "...", "batch_id": 8, "quarantined_at": 17900001}
      ]}], "complete": true, "tables": {"quarantine": {"files_read": 2, "files": 2, "complete": true}}}

The reason with the most rows comes first. Without ``complete`` the counts are those of the files that were read.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.records.driver_records import (
    ANSWER_FILE,
    KEY_LIMIT,
    QUESTION_FILE,
    Answer,
    Question,
    look_every_ms,
)
from sessionizer.control.status.driver_status import State, read_driver
from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.fleet.lookup.table_scan import WITHIN_S, DataFile, ScanResult, TableScan, begin, rows_of
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.json_record import JsonObject
from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS, quoted_command
from sessionizer.home.stream_home import StreamHome

if TYPE_CHECKING:
    import pyarrow as pa


SHOWN: Final = 5
"""Number of rows of each table in an answer."""
ORDER: Final = {SESSIONS: "ended_at", LATE_EVENTS: "noticed_at", QUARANTINE: "quarantined_at"}
"""The instant in each table by which its rows are ordered."""
_SESSION: Final = (
    "session_id", "key", "client", "started_at", "ended_at", "event_count", "close_reason", "lineage", "batch_id",
    "emitted_at",
)  # fmt: skip
_LATE: Final = ("key", "event_id", "event_time", "lineage", "batch_id", "noticed_at")
_REFUSED: Final = ("reason", "raw", "source_position", "lineage", "batch_id", "quarantined_at")
_RAW_SHOWN: Final = 2_000
"""Characters of a refused row that are shown."""


def find_key(
    stream: str, key: str, locations: Mapping[str, str], asked: JsonObject | None = None, *, within_s: float = WITHIN_S
) -> JsonObject:
    """Return the last closed sessions and late events of ``key``. ``locations``: table name to place.

    ``asked``: what the driver answered to ``ask_driver``. No file is opened after ``within_s`` seconds.

    Raises LookupNotInstalled, InvalidSpec, OSError.
    """
    deadline = begin(within_s)
    _require_text("key", key)
    import pyarrow.compute as pc  # noqa: PLC0415  of an extra

    wanted = pc.field("key") == key
    late = _scan(locations, LATE_EVENTS, deadline).find(_reader(_LATE, wanted), SHOWN, wanted)
    closed = _scan(locations, SESSIONS, deadline).find(_reader(_SESSION, wanted), SHOWN, wanted)
    tables = {SESSIONS: closed, LATE_EVENTS: late}
    told = {"stream": stream, "key": key, "open": asked, "closed": closed.rows, "late": late.rows, **_extents(tables)}
    return {**told, "says": f"{_say_of_open(stream, key, asked)}. {_say_of_closed(tables)}"}


def find_event(stream: str, event_id: str, locations: Mapping[str, str], *, within_s: float = WITHIN_S) -> JsonObject:
    """Return the rows of all tables with the event. Raises LookupNotInstalled, InvalidSpec, OSError."""
    deadline = begin(within_s)
    _require_text("event", event_id)
    import pyarrow.compute as pc  # noqa: PLC0415  of an extra

    same, named = pc.field("event_id") == event_id, pc.match_substring(pc.field("raw"), event_id)
    late = _scan(locations, LATE_EVENTS, deadline).find(_reader(_LATE, same), SHOWN, same)
    refused = _scan(locations, QUARANTINE, deadline).find(_reader(_REFUSED, named), SHOWN)
    sessions = _scan(locations, SESSIONS, deadline).find(lambda file: _sessions_with(file, event_id), SHOWN)
    for row in refused.rows:
        row["raw"] = row["raw"][:_RAW_SHOWN] if row["raw"] else row["raw"]
    tables = {SESSIONS: sessions, QUARANTINE: refused, LATE_EVENTS: late}
    return {
        "stream": stream,
        "event": event_id,
        "where": [name for name, scanned in tables.items() if scanned.rows],
        "sessions": sessions.rows,
        "quarantine": refused.rows,
        "late": late.rows,
        **_extents(tables),
        "says": _say_of_event(stream, event_id, tables),
    }


def _require_text(field: str, given: str) -> None:
    """Raise InvalidSpec for bytes of a command line that are no text, because no table can have them."""
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InvalidSpec(field, given, "text in UTF-8") from None


def _scan(locations: Mapping[str, str], table: str, deadline: float) -> TableScan:
    return TableScan(locations[table], ORDER[table], deadline)


def _reader(columns: tuple[str, ...], wanted: Any) -> Any:  # noqa: ANN401  of a package that may be missing
    return lambda file: file.read(columns, wanted)


def _sessions_with(file: DataFile, event_id: str) -> pa.Table:
    """Return the sessions of a file that have the event. None of a table without events (``sink.keep_events``)."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    if "events" not in file.schema.names:
        return file.schema.empty_table()
    ids = file.read_nested("events", "event_id")
    found = pc.equal(ids.flatten().field("event_id"), event_id)
    rows = pc.list_parent_indices(ids).filter(found)
    return file.read(_SESSION, None).take(pc.unique(rows)) if len(rows) else pa.table({})


def _extents(tables: Mapping[str, ScanResult]) -> JsonObject:
    return {
        "tables": {name: scanned.to_json() for name, scanned in tables.items()},
        "complete": all(scanned.is_complete for scanned in tables.values()),
    }


def _say_of_open(stream: str, key: str, asked: JsonObject | None) -> str:
    if asked is None or asked["error"]:
        why = "no driver answered" if asked is None else f"the driver cannot tell: {asked['error']}"
        return f"{why}. {quoted_command('state', 'show', stream, f'--key={key}')} shows its open session"
    if not asked["sessions"]:
        return f"no open session after batch {asked['batch_id']}"
    newest = asked["sessions"][-1]
    ends = newest.get("would_end_at") or "with a closing event only"
    events = count_text(newest["event_count"], "event")
    return f"open session of {events}, would end {ends} ({newest['would_close_reason']})"


def _say_of_closed(tables: Mapping[str, ScanResult]) -> str:
    unread = _list_unread_files(tables)
    for last in tables[SESSIONS].rows:
        return f"Its last closed session ended by {last['close_reason']} in batch {last['batch_id']}{unread}"
    return f"No closed session{unread}"


def _say_of_event(stream: str, event_id: str, tables: Mapping[str, ScanResult]) -> str:
    if rows := tables[SESSIONS].rows:
        return (
            f"it is in session {rows[0]['session_id']} of key {rows[0]['key']!r}, closed by {rows[0]['close_reason']}"
        )
    if rows := tables[QUARANTINE].rows:
        return f"it was refused: {rows[0]['reason']} (by a row that has this text)"
    if rows := tables[LATE_EVENTS].rows:
        return f"it came late: batch {rows[0]['batch_id']} had passed its time"
    show = f"{quoted_command('find', stream, f'--event={event_id}', '--open')} looks into the open sessions"
    others = "it is in an open session, was dropped as a duplicate, or was not read yet"
    return f"no table has it{_list_unread_files(tables)}: {others}. {show}"


def _list_unread_files(tables: Mapping[str, ScanResult]) -> str:
    cut = [
        f"{count_text(scanned.files - scanned.read, 'file')} of {name}"
        for name, scanned in tables.items()
        if not scanned.is_complete
    ]
    return f" (without {' and '.join(cut)}, for which the time was over)" if cut else ""


ANSWERED_WITHIN_S: Final = 5.0
"""Seconds for which an answer is waited for after the driver's next look."""
POLL_S: Final = 0.05


def ask_driver(home: StreamHome, key: str, within_s: float = ANSWERED_WITHIN_S) -> JsonObject | None:
    """Ask the driver for the open sessions of ``key``. None if none works. A busy one has an error. Never raises."""
    if len(key) > KEY_LIMIT or not _works(home):
        return None
    number = secrets.token_hex(8)
    question, answer = QUESTION_FILE.of(home, number), ANSWER_FILE.of(home, number)
    try:
        Store(QUESTION_FILE.folder(home)).make_folder()
        question.write(Question(key=key, at=epoch_ms()))
        deadline = time.monotonic() + look_every_ms(home) / 1000 + within_s
        while time.monotonic() < deadline:
            found = answer.read()
            if found is not None:
                return found.to_json()
            time.sleep(POLL_S)
    except (SessionizerError, OSError):
        return None
    finally:
        for file in (question, answer):
            with suppress(OSError):
                Store(file.path).remove()
    waited = describe_duration(round(1000 * within_s) + look_every_ms(home))
    return Answer(at=epoch_ms(), key=key, error=f"it is busy, and gave no answer within {waited}. Ask again").to_json()


def _works(home: StreamHome) -> bool:
    try:
        return read_driver(home, epoch_ms()).state in {State.RUNNING, State.IDLE}
    except SessionizerError:
        return False


ROWS: Final = 3
"""Rows of each reason."""
RAW_SHOWN: Final = 500
"""Characters of a row that are shown."""
_AT: Final = ORDER[QUARANTINE]
_ROW: Final = ("raw", "source_position", "lineage", "batch_id", _AT)


def read_refused_rows(
    stream: str, locations: Mapping[str, str], since_ms: int, *, within_s: float = WITHIN_S
) -> JsonObject:
    """Return the refused rows since then (epoch ms), within ``within_s`` s. Raises LookupNotInstalled, OSError."""
    scan = TableScan(locations[QUARANTINE], _AT, begin(within_s))
    import pyarrow.compute as pc  # noqa: PLC0415  of an extra

    wanted = pc.field(_AT) >= datetime.fromtimestamp(since_ms / 1000, UTC)
    found: dict[str, JsonObject] = {}

    def read(rows: pa.Table) -> None:
        for counted in rows.column("reason").value_counts().to_pylist():
            reason = counted["values"] or "unknown"  # another writer may have left it empty
            told = found.setdefault(reason, {"reason": reason, "count": 0, "rows": []})
            told["count"] += counted["counts"]
            told["rows"] = sorted([*told["rows"], *_sample(rows, counted["values"])], key=lambda row: -row[_AT])[:ROWS]

    extent = scan.visit(lambda file: read(file.read(("reason", *_ROW), wanted)), wanted)
    reasons = [{**told, "newest": told["rows"][0][_AT]} for told in found.values()]
    return {
        "stream": stream,
        "since": since_ms,
        "reasons": sorted(reasons, key=lambda told: -told["count"]),
        "complete": extent.is_complete,
        "tables": {QUARANTINE: extent.to_json()},
    }


def _sample(rows: pa.Table, reason: str | None) -> list[JsonObject]:
    import pyarrow.compute as pc  # noqa: PLC0415  of an extra

    is_ours = pc.field("reason").is_null() if reason is None else pc.field("reason") == reason
    ours = rows.filter(is_ours).sort_by([(_AT, "descending")])
    told = rows_of(ours.slice(0, ROWS).select(_ROW))
    return [{**row, "raw": row["raw"] and row["raw"][:RAW_SHOWN]} for row in told]
