"""The state, without open events, that a lineage transfers to the next: as values, read from files of a stopped stream.

A lineage is never changed in place. A command that gives a stream another state, or another home for it, makes a
lineage that begins with this (docs/adr/0084).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeAlias

from sessionizer.checkpoint.files import SeenFile, list_files_until
from sessionizer.checkpoint.log_entries import PUNCTUATIONS
from sessionizer.counts import count_text
from sessionizer.home.data_files import examine_data_json, list_names, publish_json
from sessionizer.home.json_record import JsonObject
from sessionizer.home.record_file import examine_json, write_json
from sessionizer.home.stream_home import TIMEOUTS, StreamHome
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, NOTHING_EXCLUDED, read_excluded_ranges
from sessionizer.lineage.kept_spec import SOURCE_IDS_FILE, TYPES_FILE, KeptTypes, LineageSpec
from sessionizer.state.lineages.committed_batch import CommittedBatch
from sessionizer.state.lineages.origin import Origin

Blobs: TypeAlias = tuple[str, ...]
"""The SHA-256 of each blob of a key group's log, oldest first."""


class LineageStep(StrEnum):
    """Steps of making a lineage that are done. A kill after any but the last leaves the stream as it was."""

    MADE = "made"
    SEEDED = "seeded"
    COMPARED = "compared"
    POSITIONED = "positioned"
    RECORDED = "recorded"
    ACTIVATED = "activated"


@dataclass(frozen=True, slots=True)
class StateTransfer:
    """The state that a new lineage begins with, without open events.

    ``offset``: where the source of events goes on, as Spark writes it, or the files ``seen``. None means its beginning.
    ``watermark_ms``: what the first batch with events gets (epoch ms). ``timeouts``: of clients, changed so far (ms).
    ``spec``: what the lineage runs by. ``kept``: the types that its open events may have. ``records``: other files of
    the lineage, by their names. ``punctuations``: those that no batch has read yet, by their names.
    """

    origin: Origin
    spec: LineageSpec
    kept: KeptTypes
    watermark_ms: int
    offset: Any | None
    seen: tuple[SeenFile, ...] = ()
    timeouts: Mapping[str, int] = field(default_factory=dict)
    records: Mapping[str, JsonObject] = field(default_factory=dict)
    punctuations: Mapping[str, JsonObject] = field(default_factory=dict)

    def forget_clients(self, is_erased: Callable[[str], bool]) -> Self:
        """Return it without the timeouts of erased clients, also in records and punctuations."""

        def kept(value: JsonObject) -> JsonObject:
            match value.get(TIMEOUTS):
                case dict(told):
                    return {**value, TIMEOUTS: {client: ms for client, ms in told.items() if not is_erased(client)}}
                case list(told):
                    return {**value, TIMEOUTS: [each for each in told if not is_erased(each["client"])]}
            return value

        return replace(
            self,
            timeouts={client: ms for client, ms in self.timeouts.items() if not is_erased(client)},
            records={name: kept(value) for name, value in self.records.items()},
            punctuations={name: kept(value) for name, value in self.punctuations.items()},
        )


def records_beside(home: StreamHome, lineage: str, *, same_source: bool = True) -> dict[str, JsonObject]:
    """Collect the records that its successor needs: timeouts, excluded files and ranges, ids of topics.

    Positions of one source mean nothing in another. Raises DamagedFile if the exclusions cannot be read, because the
    excluded rows would come in.
    """
    root = home.lineage(lineage)
    kept = [
        root.announced_timeouts,
        root.unreadable_files,
        root.schema_ids,
        *([SOURCE_IDS_FILE.of(home, lineage).path] if same_source else []),
    ]
    found = {file.name: examine_json(file).value for file in kept}
    excluded_ranges = read_excluded_ranges(home, lineage) if same_source else NOTHING_EXCLUDED
    return {
        **{name: value for name, value in found.items() if value is not None},
        **(EXCLUDED_RANGES_FILE.content(excluded_ranges) if excluded_ranges else {}),
    }


def unread_punctuations(home: StreamHome, committed: CommittedBatch) -> dict[str, JsonObject]:
    """Return the punctuations of a stream that no batch up to that of ``committed`` has read. Raises OSError."""
    folder, checkpoint = home.punctuations(committed.lineage), home.checkpoint(committed.lineage)
    read = {uri.rpartition("/")[2] for uri in list_files_until(checkpoint, committed.batch_id, PUNCTUATIONS)}
    unread = [name for name in list_names(folder) if name.endswith(".json") and name not in read and name[0] != "."]
    found = {name: examine_data_json(folder / name).value for name in unread}
    return {name: value for name, value in found.items() if value is not None}


def write_records(home: StreamHome, lineage: str, transfer: StateTransfer) -> None:
    """Write the files of a lineage that Spark does not write. Raises UnwritablePath, DiskFull.

    ``settle`` writes the types of a stream's first lineage, because they mark it as active, which it is not yet.
    """
    for name, value in transfer.records.items():
        write_json(home.lineage(lineage).records / name, value)
    for name, value in transfer.punctuations.items():
        publish_json(home.punctuations(lineage) / name, value)
    if transfer.origin.parent is not None:
        TYPES_FILE.of(home, lineage).write(transfer.kept)


def settle(home: StreamHome, lineage: str, kept: KeptTypes) -> None:
    """Write the types of its state into ``lineage``, which is active by now. Raises UnwritablePath."""
    if TYPES_FILE.of(home, lineage).require() is None:
        TYPES_FILE.of(home, lineage).write(kept)


class PackedGroup(NamedTuple):
    """Packed open events of a key group: their number, and whether each came back unchanged."""

    events: int
    whole: bool
    blobs: Blobs


def check_packing(events: Mapping[int, int], packed: Mapping[int, PackedGroup]) -> str | None:
    """Say which key group was packed wrongly, None if all are right. ``events``: open events by key group."""
    for group in sorted({*events, *packed}):
        given, found = events.get(group, 0), packed.get(group, PackedGroup(0, whole=True, blobs=()))
        if given != found.events:
            return f"key group {group} should hold {count_text(given, 'open event')} and holds {found.events}"
        if not found.whole:
            return f"of {count_text(given, 'open event')} of key group {group} some did not come back as they were"
    return None


def disagreement(handed_over: Mapping[int, Blobs], found: Mapping[int, Blobs]) -> str | None:
    """Say which key group of a new lineage differs from the transferred blobs, None if none does."""
    for group in sorted({*handed_over, *found}):
        before, now = handed_over.get(group, ()), found.get(group, ())
        if len(before) != len(now):
            return f"key group {group} should hold {len(before)} blobs of open events and holds {len(now)}"
        if before != now:
            return f"the open events of key group {group} are others than were handed over"
    return None
