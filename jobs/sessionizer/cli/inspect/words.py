"""Texts about the contents of a state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sessionizer.counts import count_text
from sessionizer.home.clock import moment_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sessionizer.core.key_group.contents import GroupContents, KeyWeight
    from sessionizer.state.lineages.committed_batch import RetainedBatch

NEVER: Final = "never"
_WIDTH: Final = 200
_OF_EVENT: Final = ("event_time", "event_id", "closes")
_GROUP_COLUMNS: Final = ("group", "events", "keys", "sessions", "blobs", "stored", "decoded", "first end", "timer")


def moment(ms: int | None) -> str:
    """Format epoch ms as UTC, to the second."""
    return NEVER if ms is None else moment_text(ms)


def size(count: int) -> str:
    """Format a number of bytes, in the unit that fits."""
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"


def table_text(columns: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = ()) -> str:
    """Lay rows out beneath their columns, text in ``left`` ones. A cell of many lines is cut to its first."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(one_line, row))
    console = Console(width=_WIDTH, no_color=True, markup=False)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines() if line.strip())


def one_line(text: str) -> str:
    """Return the first line that is not blank, marked if others follow. Spark's messages may have twenty lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{lines[0]} …" if len(lines) > 1 else "".join(lines)


def where_line(found: RetainedBatch) -> str:
    """Name the batch that the following lines describe."""
    return f"stream {found.stream}, lineage {found.lineage}, batch {found.batch_id} of {moment(found.at_ms)}"


def where_json(found: RetainedBatch) -> dict[str, Any]:
    """Return the batch as JSON."""
    return {
        "stream": found.stream,
        "lineage": found.lineage,
        "batch_id": found.batch_id,
        "batch_at": found.at_ms,
        "watermark_ms": found.watermark_ms,
    }


def groups_text(contents: Mapping[int, GroupContents], timers: Mapping[int, Sequence[int]], count: int) -> str:
    """List the key groups with the most bytes."""
    heaviest = sorted(contents.values(), key=lambda each: (-each.bytes, each.key_group))[:count]
    rows = [
        [
            *(f"{number:,}" for number in (each.key_group, each.events, each.keys, each.sessions, each.blobs)),
            size(each.blob_bytes),
            size(each.bytes),
            moment(each.first_due_ms),
            ", ".join(map(moment, timers.get(each.key_group, ()))) or "none",
        ]
        for each in heaviest
    ]
    return table_text(_GROUP_COLUMNS, rows)


def keys_text(keys: Sequence[KeyWeight]) -> str:
    """List the keys with the most bytes."""
    rows = [[each.key, str(each.key_group), f"{each.events:,}", size(each.bytes)] for each in keys]
    return table_text(("key", "group", "events", "decoded"), rows, left=("key",))


def session_lines(session: Mapping[str, Any]) -> list[str]:
    """Describe an open session with its events."""
    ends = f"would end {_clock(session.get('would_end_at'))} ({session['would_close_reason']})"
    client = f", client {session['client']}" if "client" in session else ""
    events, since = count_text(session["event_count"], "event"), _clock(session["started_at"])
    head = f"session of {events} since {since}{client}: {ends}"
    return [head, *(f"  {_event_line(event)}" for event in session["events"])]


def _event_line(event: Mapping[str, Any]) -> str:
    payload = {name: value for name, value in event.items() if name not in _OF_EVENT}
    closes = "  closes" if event.get("closes") else ""
    return f"{_clock(event.get('event_time'))}  {event['event_id']}{closes}  {json.dumps(payload, ensure_ascii=False)}"


def _clock(text: str | None) -> str:
    """Format ISO 8601 to the millisecond, like the other moments of the output."""
    return NEVER if text is None else f"{text.replace('T', ' ').rstrip('Z')[:23]} UTC"
