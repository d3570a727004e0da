"""The batches of a log as the files that a stream reads: events as JSON, the rest as punctuations."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.rules import NEVER_MS
from sessionizer.home.data_files import list_names
from sessionizer.spark.ingest import punctuation
from support.places import opened
from support.streams.strategies import PAYLOAD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from sessionizer.home.roots import DataPath
    from support.streams.strategies import Log

COLUMNS = "key string, client string, at_ms bigint, event_id string, closes boolean, timeout_ms bigint, " + ", ".join(
    f"{name} {kind}" for name, kind in PAYLOAD_COLUMNS.items()
)
MAPPING = {
    "key": "key",
    "client": "client",
    "event_time": "timestamp_millis(at_ms)",
    "event_id": "event_id",
    "closes": "closes",
    "timeout_ms": "timeout_ms",
    "payload": {name: name for name in PAYLOAD_COLUMNS},
}


def batches_that_bring_something(log: Log) -> list[Batch]:
    """The others leave no file behind."""
    return [batch for batch in log.batches if batch.events or batch.floor_ms is not None or batch.timeout_changes]


class Feed:
    """Writes batches, one at a time, to ``events`` under an empty folder and ``punctuations`` there or in ``data``."""

    def __init__(self, batches: list[Batch], home: Path, data: DataPath | None = None) -> None:
        self.events_folder = home / "events"
        self.punctuations: DataPath = (data or home) / "punctuations"
        self.events_folder.mkdir()
        opened(self.punctuations).mkdir()
        self._batches = batches
        self._told: dict[str, Batch] = {}
        self.written = 0

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left to write."""
        return self.written == len(self._batches)

    @property
    def names(self) -> set[str]:
        """The files written so far."""
        return set(self._told)

    def write_next(self) -> None:
        """Write the next batch: its events as two files where there are several, its punctuations as one each."""
        batch = self._batches[self.written]
        half = (len(batch.events) + 1) // 2
        self._write_events("a", batch.events[:half])
        self._write_events("b", batch.events[half:])
        if batch.floor_ms is not None:
            self._punctuate(Batch((), 0, floor_ms=batch.floor_ms), self._announce_floor)
        if batch.timeout_changes:
            self._punctuate(Batch((), 0, timeout_changes=batch.timeout_changes), self._announce_timeouts)
        self.written += 1

    def batch_of(self, files: Iterable[str], arrived_at_ms: int) -> Batch:
        """What a micro-batch of these files brings."""
        told = [self._told[file] for file in sorted(files)]
        floors = [part.floor_ms for part in told if part.floor_ms is not None]
        return Batch(
            events=tuple(chain.from_iterable(part.events for part in told)),
            arrived_at_ms=arrived_at_ms,
            floor_ms=max(floors, default=None),
            timeout_changes={client: ms for part in told for client, ms in part.timeout_changes.items()},
        )

    def _write_events(self, part: str, events: tuple[Event, ...]) -> None:
        """A file is complete before Spark can see its name."""
        if events:
            name = f"{self.written:03}-{part}.json"
            hidden = self.events_folder / f".{name}"
            hidden.write_text("\n".join(json.dumps(source_row(event)) for event in events))
            self._told[name] = Batch(events, 0)
            hidden.rename(self.events_folder / name)

    def _punctuate(self, told: Batch, announce: Callable[[Batch], None]) -> None:
        before = set(self._punctuations_there())
        announce(told)
        (written,) = set(self._punctuations_there()) - before
        self._told[written] = told

    def _punctuations_there(self) -> list[str]:
        return [name for name in list_names(self.punctuations) if name.endswith(".json")]

    def _announce_floor(self, told: Batch) -> None:
        if told.floor_ms == NEVER_MS:
            punctuation.drain(self.punctuations)
        elif told.floor_ms is not None:
            punctuation.move_watermark(self.punctuations, told.floor_ms)

    def _announce_timeouts(self, told: Batch) -> None:
        punctuation.change_timeouts(self.punctuations, told.timeout_changes)


def source_row(event: Event) -> dict[str, object]:
    payload = dict(zip(PAYLOAD_COLUMNS, event.payload, strict=True))
    return {
        "key": event.key,
        "client": event.client,
        "at_ms": event.event_time_ms,
        "event_id": event.event_id,
        "closes": event.closes,
        "timeout_ms": event.timeout_ms,
        **payload,
    }
