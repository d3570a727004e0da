"""Reader of a history, and runner of a seed: the lineage begins with its open events, then the tables are written.

Killed anywhere it is done again from its record. The results of the history are kept until the end, so a second run
takes nothing else. The finished sessions are written last, under the new lineage's batch 0, which a table takes once.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession

from sessionizer.checkpoint.files import SeenFile
from sessionizer.checkpoint.log_entries import PARTITIONS, partitions_of
from sessionizer.control.execution import Step, list_differences
from sessionizer.control.operation import Operation
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.core.wire import rows
from sessionizer.core.wire.canonical import canonical_schema
from sessionizer.counts import count_text
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import InvalidSpec, PlanChanged
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import (
    examine_data_json,
    make_data_folder,
    make_private_data,
    publish_json,
    remove_tree,
)
from sessionizer.home.json_record import add_stamp
from sessionizer.home.names import mint_id
from sessionizer.home.roots import DataPath, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import KeptTypes, sink_folders
from sessionizer.spark.history.history_rows import FIELD, HistoryPosition, Reader, read_history_rows, read_to_now
from sessionizer.spark.history.read import FirstBatch, SourceFigures, client_timeouts, look, rules_in_force
from sessionizer.spark.ingest.guard import Guarded, require_erased_columns, require_in_reach, types_of
from sessionizer.spark.ingest.punctuation import ANNOUNCED_FILE, AnnouncedTimeouts
from sessionizer.spark.sinks.examine import Examined
from sessionizer.spark.sinks.tables import have_tables
from sessionizer.spark.state.commands.runner import SparkRunner
from sessionizer.spark.state.lineages.migrated_events import write_first_batch
from sessionizer.spark.state.open_events import count_by_kind, open_event_schema, open_payload, select_open_events
from sessionizer.spark.state.restores.table_rows import count_changes
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.seeds import BEGINNING, NOW, SOURCE, HistoryFigures, Seed, SeedPlan
from sessionizer.state.commands.steps import KeepTypes, ReadHistory, WriteFinishedSessions
from sessionizer.state.lineages.committed_batch import StateTransfer, settle
from sessionizer.state.lineages.origin import Origin, origins_of
from sessionizer.state.restores.row_changes import RowChanges, StreamedTable, deletion_of_all, streamed_tables
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

_TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class HistoryResults:
    """The results of a history, at ``location``: ``kept`` types of open events, ``timeouts`` (ms) in force for it."""

    location: str
    figures: HistoryFigures
    kept: KeptTypes
    place: HistoryPosition
    timeouts: Mapping[str, int]

    def frame(self, spark: SparkSession) -> DataFrame:
        """Read the rows of ``rows.EMITTED``."""
        return spark.read.format("delta").load(self.location)


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """A reading of the history of ``decision`` as ``past``, for a stream whose ``spec`` is ``examined``."""

    spark: SparkSession
    spec: StreamSpec
    examined: Examined
    past: Reader
    decision: SeedPlan
    platform_home: Path

    def figures(self, scratch: DataPath) -> HistoryFigures:
        """Count the results of the history. Writes only to ``scratch``, an empty folder."""
        found: list[HistoryFigures] = []

        def take(guarded: Guarded) -> None:
            looked, first = self._first(guarded)
            found.append(_figures(looked, first, count_by_kind(first.taken(guarded, looked.events))))

        self._read(scratch, take, wants_place=False)
        return found[0] if found else self._nothing()

    def kept(self, folder: DataPath, permit: Callable[[], None]) -> HistoryResults:
        """Return the results of the history in ``folder``: whole ones of a killed call, else made anew.

        Each call keeps them in a place of its own, which counts if ``permit`` returns then. So a call that was
        overtaken while it read changes nothing for its successor. Raises LeaseLost, DamagedFile, and PlanChanged if a
        call before had another decision to carry out.
        """
        known = examine_data_json(folder / f"{_TAKEN}.json")
        if known.error is not None:
            raise known.error
        if known.value is None:
            remove_tree(folder)
            own = mint_id(epoch_ms())
            make_private_data(folder)
            make_data_folder(folder / own / "scratch")
            found = self._keep(folder / own)
            permit()
            publish_json(folder / f"{_TAKEN}.json", add_stamp({**found, "own": own}))
            known = examine_data_json(folder / f"{_TAKEN}.json")
        value: dict[str, Any] = json.loads(json.dumps(known.value))
        if value["decided"] != _digest_decision(self.decision):
            differences = list_differences(value.get("fields", {}), self.decision.decided)
            raise PlanChanged(self.decision.stream, str(value["digest"]), self.decision.digest, differences)
        return HistoryResults(
            location=uri_of((folder / value["own"] if "own" in value else folder) / _TAKEN),
            figures=HistoryFigures(**value["figures"]),
            kept=KeptTypes(value["time_mode"], value["payload"]),
            place=HistoryPosition(value["offset"], tuple(SeenFile(*file) for file in value["seen"])),
            timeouts=value["timeouts"],
        )

    def _keep(self, folder: DataPath) -> dict[str, Any]:
        found: list[tuple[HistoryFigures, KeptTypes]] = []

        def take(guarded: Guarded) -> None:
            looked, first = self._first(guarded)
            location = uri_of(folder / _TAKEN)
            first.taken(guarded, looked.events).write.format("delta").mode("overwrite").save(location)
            written = guarded.rows.sparkSession.read.format("delta").load(location)
            found.append((_figures(looked, first, count_by_kind(written)), self._types(guarded)))

        place = self._read(folder / "scratch", take, wants_place=True)
        figures, kept = found[0] if found else (self._nothing(), KeptTypes(""))
        return {
            "digest": self.decision.digest,
            "decided": _digest_decision(self.decision),
            "fields": self.decision.decided,
            "spec": document_of(self.spec),
            "figures": asdict(figures),
            "time_mode": kept.time_mode,
            "payload": kept.payload,
            "offset": place.offset,
            "seen": [[file.uri, file.changed_at] for file in place.seen],
            "timeouts": client_timeouts(self.spark, self.spec, self.platform_home),
        }

    def _read(self, scratch: DataPath, take: Any, *, wants_place: bool) -> HistoryPosition:  # noqa: ANN401  a function
        """Give ``take`` the rows. The position is read first: events that come meanwhile appear twice, not never."""
        if self.decision.past.format == SOURCE:
            return read_to_now(self.spark, self.spec, self.platform_home, scratch, take)
        live, place = self.decision.live_from, HistoryPosition()
        if wants_place and live == NOW:
            place = read_to_now(self.spark, self.spec, self.platform_home, scratch, lambda _: None)
        elif wants_place and live != BEGINNING:
            place = HistoryPosition(json.loads(live))
        take(read_history_rows(self.spark, self.spec, self.past, self.platform_home))
        return place

    def _first(self, guarded: Guarded) -> tuple[SourceFigures, FirstBatch]:
        looked, kept = look(guarded), self._types(guarded)
        if looked.latest_ms is None:
            self._nothing()
        rules = rules_in_force(self.spec, client_timeouts(self.spark, self.spec, self.platform_home))
        asked = self.decision.until_ms
        watermark = looked.latest_ms - rules.watermark_delay_ms if asked is None else asked
        live = self.examined.guarded.payload_fields
        return looked, FirstBatch(rules, watermark, live, open_payload(kept), self.decision.keeps_later)

    def _types(self, guarded: Guarded) -> KeptTypes:
        """Return the types of the history and the stream, whose columns must be able to take the history's."""
        kept = KeptTypes(str(self.spec.rules.clock)).add_payload(types_of(guarded.payload))
        live = self.examined.guarded.payload
        require_erased_columns(StreamHome.of(self.platform_home, self.spec.name), live)
        require_in_reach(live, kept)
        return kept.add_payload(types_of(live))

    def _nothing(self) -> NoReturn:
        raise InvalidSpec(FIELD, self.decision.past.typed, "a history with events in it")


def spec_of_history(folder: DataPath, spec: StreamSpec) -> StreamSpec:
    """Return the approved spec by which the kept history in ``folder`` was read, else ``spec``. Raises DamagedFile."""
    file = folder / f"{_TAKEN}.json"
    kept = (examine_data_json(file).value or {}).get("spec")
    return spec if kept is None else parse_recorded_spec(kept, file)


def _digest_decision(decision: SeedPlan) -> str:
    """Return the digest of the decision without the version of the history, which has been read by then."""
    return replace(decision, past=replace(decision.past, version="")).digest


def _figures(looked: SourceFigures, first: FirstBatch, counts: Mapping[str, int]) -> HistoryFigures:
    return HistoryFigures(
        watermark_ms=first.watermark_ms,
        events=looked.events,
        refused=dict(looked.refused),
        later=counts.get(rows.LATER, 0),
        sessions=counts.get(rows.SESSIONS, 0),
        open_sessions=counts.get(rows.OPEN_SESSIONS, 0),
        open_events=counts.get(rows.OPEN_EVENTS, 0),
        repeated=counts.get(rows.REPEATED, 0),
        conflicting=counts.get(rows.QUARANTINE, 0) - sum(looked.refused.values()),
    )


@dataclass(kw_only=True)
class SeedRunner(SparkRunner[Seed]):
    """Runner of a seed with the history that ``reader`` reads."""

    reader: HistoryReader
    _history: HistoryResults | None = field(default=None, init=False)

    def look(self) -> Plan[SeedPlan]:
        """Make the plan with its current figures. Nothing is kept."""
        with tempfile.TemporaryDirectory(prefix="seed-plan-") as scratch:
            figures = self.reader.figures(Path(scratch))
        decision, leaving = self.reader.decision, Counter[str]()
        if decision.leaves is not None:  # a start over deletes the rows of each table, in all folders
            tables, changes = self.row_changes()
            for each in count_changes(self.reader.spark, self.home.name, tables, changes):
                leaving[each.table] += each.rows
        return replace(self.command.plan(decision), decision=replace(decision, figures=figures, leaving=dict(leaving)))

    def plan_again(self, record: OperationRecord) -> Plan[SeedPlan]:  # noqa: ARG002  the interface
        """Make the plan without its figures, because the history is read anyway."""
        return self.command.plan(self.reader.decision)

    def run_own(self, step: Step, operation: Operation) -> str | None:
        """Run a step that only a seed has."""
        match step:
            case ReadHistory():
                self._read(operation)
            case KeepTypes():
                settle(self.home, self.activated(operation), self._read(operation).kept)
            case WriteFinishedSessions():
                reader, emitted = self.reader, self._read(operation).frame(self.spark)
                payload, lineage = reader.examined.guarded.payload_fields, self.activated(operation)
                counts = write_first_batch(self.home, lineage, reader.spec, payload, emitted, operation.permit)
                sessions = count_text(counts[rows.SESSIONS], "session")
                self.say(f"tables: {sessions}, {count_text(counts[rows.QUARANTINE], 'row')} in quarantine")
            case _:
                return super().run_own(step, operation)
        return None

    def start_lineage(self, operation: Operation) -> None:
        """Start the new lineage with the open events of the history."""
        reader, taken = self.reader, self._read(operation)
        transfer = StateTransfer(
            origin=Origin(self.command.name, epoch_ms(), reader.decision.leaves),
            spec=new_record(self.home, reader.spec),
            kept=taken.kept,
            watermark_ms=taken.figures.watermark_ms,
            offset=taken.place.offset,
            seen=taken.place.seen,
            timeouts=taken.timeouts,
            records=ANNOUNCED_FILE.content(AnnouncedTimeouts(taken.timeouts)) if taken.timeouts else {},
        )
        partitions = partitions_of(reader.spark.conf.get(PARTITIONS), reader.spec.key_groups)
        state = select_open_events(taken.frame(reader.spark), canonical_schema(open_event_schema(taken.kept)))
        self.start_with(state, transfer, reader.spec, partitions, operation, reader.examined)

    def row_changes(self) -> tuple[Sequence[StreamedTable], RowChanges]:
        """Return the tables, and all rows that the stream has written so far."""
        origins = origins_of(self.home)
        folders = (self.reader.spec.sink.path, *sink_folders(self.home, origins))
        return streamed_tables(self.home, folders, {}), deletion_of_all(origins)

    def clean_up(self, operation: Operation) -> None:
        """Remove the new lineage of a failed try, and the kept results of the history once the seed is over."""
        super().clean_up(operation)
        if operation.record.outcome is not None:
            remove_tree(self.home.seeds)

    def _read(self, operation: Operation) -> HistoryResults:
        if self._history is None:
            reader = self.reader
            have_tables(reader.spark, self.home, reader.spec, reader.examined.shapes(reader.spec))
            self.say("taking the history")
            self._history = reader.kept(self.home.seeds / operation.record.id, operation.permit)
        return self._history
