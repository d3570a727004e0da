"""The three tables of a stream as they must be and as they are, in a form that can be compared and counted.

What must be comes from the definition, given the batches that the checkpoint says there were; what is, is read without
Spark.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeAlias

from deltalake import DeltaTable

from sessionizer.core.definition.event import AdmittedEvent, Batch, Event
from sessionizer.core.definition.oracle import Stretch, cut, sessionize
from sessionizer.core.definition.outcome import Outcome
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.spark.query.assembly import rules_of
from sessionizer.state.lineages.origin import origins_of, path_to
from sessionizer.state.savepoints.manifest import read_manifest
from sessionizer_demo.feed.generator import Row
from sessionizer_demo.feed.rows.kinds import QUARANTINE_REASONS, RowKind
from sessionizer_demo.feed.traffic.events import ClickEvent
from support.expected.checkpoint_log import CheckpointLog, MicroBatch
from support.streams.click_files import ClickFiles
from support.streams.plain_rows import late_event_of_oracle, session_of_oracle
from support.streams.stage import PAYLOAD_COLUMNS, Stage

Rows: TypeAlias = "Counter[tuple[Any, ...]]"
REFUSED = frozenset(QUARANTINE_REASONS) - {RowKind.CONFLICTING_DUPLICATE}
"""Kinds of rows that the guard turns away."""


@dataclass(frozen=True, slots=True)
class Landed:
    """The rows of each table, with how often each is there. A quarantined row is its reason and its raw text, a
    conflicting duplicate its reason and its event id."""

    sessions: Rows = field(default_factory=Counter)
    late: Rows = field(default_factory=Counter)
    quarantine: Rows = field(default_factory=Counter)


def assert_as_defined(
    stage: Stage, files: ClickFiles, timeout_changes: Mapping[str, Mapping[str, int]] = MappingProxyType({})
) -> None:
    """The tables hold what the definition makes of ``files`` in the batches that Spark formed of them, each row once.

    ``timeout_changes``: what the punctuations of these names said; every other one was a drain.
    """
    logged = CheckpointLog(stage.checkpoint).committed()
    assert set(files) <= {name for batch in logged for name in batch.files}, "not every file was read"
    batches = batches_of(logged, files, timeout_changes)
    assert_landed(stage, batches, [row for name in sorted(files) for row in files[name]])


def batches_on_path(home: StreamHome) -> list[MicroBatch]:
    """Return the batches on the path of the open state. The first of a lineage with a state brought no events.

    Each lineage that began from a savepoint begins after the batch that the savepoint is of.
    """
    found: list[MicroBatch] = []
    active, origins = active_lineage(home), origins_of(home)
    for origin in filter(None, origins.values()):
        if origin.savepoint and (saved := read_manifest(SavepointHome.of(home.savepoints, origin.savepoint))):
            assert (origin.parent, origin.batch_id) == (saved.lineage, saved.batch_id)
    for number, segment in enumerate(path_to(active, None, origins) if active else ()):
        committed = CheckpointLog(home.checkpoint(segment.lineage)).committed()[bool(number) :]
        found += [batch for batch in committed if segment.until is None or batch.batch_id <= segment.until]
    return found


def assert_path_as_defined(stage: Stage, files: ClickFiles) -> None:
    """Compare the tables of a moved stream with the definition, by the batches on the path of its lineage."""
    rows = [row for name in sorted(files) for row in files[name]]
    assert_landed(stage, batches_of(batches_on_path(stage.stream_home), files), rows)


def batches_of(
    logged: Iterable[MicroBatch],
    files: ClickFiles,
    timeout_changes: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> list[Batch]:
    """What the micro-batches of a checkpoint brought, for the definition; arguments as of ``assert_as_defined``."""
    found: list[Batch] = []
    for batch in logged:
        rows = [row for name in batch.files & files.keys() for row in files[name]]
        punctuations = batch.files - files.keys()
        changes = [item for name in punctuations for item in timeout_changes.get(name, {}).items()]
        floor_ms = NEVER_MS if punctuations - timeout_changes.keys() else None
        events = tuple(event_of(row.event) for row in rows if is_valid(row))
        found.append(Batch(events, batch.at_ms, floor_ms, timeout_changes=dict(changes)))
    return found


def assert_landed(stage: Stage, batches: Iterable[Batch], rows: Iterable[Row]) -> None:
    """As ``assert_as_defined``, of any source: ``rows`` is all that came, ``batches`` what of it was valid."""
    expected = as_landed(sessionize(batches, rules_of(stage.spec())), rows)
    found = landed(stage)
    for table in ("sessions", "late", "quarantine"):
        _assert_same(table, getattr(expected, table), getattr(found, table))


def _assert_same(table: str, expected: Rows, found: Rows) -> None:
    missing, extra = expected - found, found - expected
    counts = f"{table}: {missing.total()} rows missing and {extra.total()} too many of {expected.total()}"
    assert not missing, f"{counts}, such as {list(missing.items())[:3]}"
    assert not extra, f"{counts}, such as {list(extra.items())[:3]}"


# As it must be


def is_valid(row: Row) -> bool:
    return row.kind not in REFUSED


def event_of(click: ClickEvent) -> Event:
    return Event(
        key=click.user_id,
        client=click.client,
        event_time_ms=click.ts,
        event_id=click.event_id,
        closes=click.closes,
        timeout_ms=None if click.timeout_s is None else click.timeout_s * 1000,
        payload=tuple(getattr(click, name) for name in PAYLOAD_COLUMNS),
        columns=tuple(PAYLOAD_COLUMNS),
    )


def as_landed(outcome: Outcome, rows: Iterable[Row]) -> Landed:
    """An outcome, and what the guard refuses of ``rows``, as the tables show them."""
    bad = (row for row in rows if not is_valid(row))
    refused = Counter((QUARANTINE_REASONS[row.kind], row.value.decode("utf-8", errors="replace")) for row in bad)
    conflicting = Counter(("conflicting_duplicate", event.event_id) for event in outcome.conflicting)
    return Landed(
        sessions=Counter(map(session_of_oracle, outcome.closed)),
        late=Counter(map(late_event_of_oracle, outcome.late)),
        quarantine=refused + conflicting,
    )


def open_stretches(outcome: Outcome) -> list[Stretch]:
    events: dict[str, list[AdmittedEvent]] = {}
    for admitted in outcome.open_events:
        events.setdefault(admitted.event.key, []).append(admitted)
    return [stretch for ours in events.values() for stretch in cut(ours)]


# As it is


def landed(stage: Stage) -> Landed:
    session = ("session_id", "key", "client", "started_at", "ended_at", "event_count", "close_reason", "events")
    late = ("key", "client", "event_time", "event_id", "closes", "timeout_ms", *PAYLOAD_COLUMNS)
    return Landed(
        sessions=Counter(plain([row[name] for name in session]) for row in table_rows(stage.table("sessions"))),
        late=Counter(plain([row[name] for name in late]) for row in table_rows(stage.table("late_events"))),
        quarantine=Counter(_quarantined(row) for row in table_rows(stage.table("quarantine"))),
    )


def table_rows(path: DataPath) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(uri_of(path)).to_pyarrow_table().to_pylist()
    return rows


def _quarantined(row: Mapping[str, Any]) -> tuple[Any, ...]:
    if row["reason"] == "conflicting_duplicate":
        return (row["reason"], json.loads(row["raw"])["event_id"])
    return (row["reason"], row["raw"])


def plain(value: Any) -> Any:
    """Lists and structs as tuples, times as epoch milliseconds."""
    if isinstance(value, dict):
        return tuple(plain(part) for part in value.values())
    if isinstance(value, list | tuple):
        return tuple(plain(part) for part in value)
    return epoch_ms(value) if hasattr(value, "timestamp") else value


def epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
