"""Reader of a history: it counts for a plan, or keeps the results in a folder until the new lineage is active."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession

from sessionizer.checkpoint.file_lists import SeenFile
from sessionizer.control.plan_changes import list_differences
from sessionizer.core.wire import rows
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
from sessionizer.lineage.kept_spec import KeptTypes
from sessionizer.spark.history.history_rows import FIELD, HistoryPosition, Reader, read_history_rows, read_to_now
from sessionizer.spark.history.read import FirstBatch, SourceFigures, client_timeouts, look, rules_in_force
from sessionizer.spark.ingest.guard import Guarded, require_in_reach, types_of
from sessionizer.spark.sinks.examine import Examined
from sessionizer.spark.state.open_events import count_by_kind, open_payload
from sessionizer.state.commands.seeds import BEGINNING, NOW, SOURCE, HistoryFigures, SeedPlan
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec

_TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class HistoryResults:
    """The results of a history, kept at ``location``. ``kept``: the types of its open events.

    ``place``: position of the source. ``timeouts``: of the clients, in force for all of it (ms).
    """

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
        """Give ``take`` the rows.

        The source's position is read first: events that come meanwhile appear twice, not never.
        """
        if self.decision.past.format == SOURCE:
            return read_to_now(self.spark, self.spec, self.platform_home, scratch, take)
        place = self._live(scratch) if wants_place else HistoryPosition()
        take(read_history_rows(self.spark, self.spec, self.past, self.platform_home))
        return place

    def _live(self, scratch: DataPath) -> HistoryPosition:
        live = self.decision.live_from
        if live == BEGINNING:
            return HistoryPosition()
        if live == NOW:
            return read_to_now(self.spark, self.spec, self.platform_home, scratch, lambda _: None)
        return HistoryPosition(json.loads(live))

    def _first(self, guarded: Guarded) -> tuple[SourceFigures, FirstBatch]:
        looked, kept = look(guarded), self._types(guarded)
        if looked.latest_ms is None:
            self._nothing()
        timeouts = client_timeouts(self.spark, self.spec, self.platform_home)
        rules = rules_in_force(self.spec, timeouts)
        asked = self.decision.until_ms
        watermark = looked.latest_ms - rules.watermark_delay_ms if asked is None else asked
        live = self.examined.guarded.payload_fields
        return looked, FirstBatch(rules, watermark, live, open_payload(kept), self.decision.keeps_later)

    def _types(self, guarded: Guarded) -> KeptTypes:
        """Return the types of the history and of the stream.

        The stream's columns must be able to take the history's.
        """
        kept = KeptTypes(str(self.spec.rules.clock)).add_payload(types_of(guarded.payload))
        require_in_reach(self.examined.guarded.payload, kept)
        return kept.add_payload(types_of(self.examined.guarded.payload))

    def _nothing(self) -> NoReturn:
        raise InvalidSpec(FIELD, self.decision.past.typed, "a history with events in it")


def spec_of_history(folder: DataPath, spec: StreamSpec) -> StreamSpec:
    """Return the spec by which the kept history in ``folder`` was read. Without one, return the file's ``spec``.

    A seed that is killed later goes on by the approved spec, whatever its file says by then. Raises DamagedFile.
    """
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
