"""Maker of a lineage that begins with a state: seeded in a batch of its own, read back, compared, then activated.

The lineage before it is not touched, and no driver reads the new one before its last step (docs/adr/0084).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sessionizer.core.key_group.open_in_group import OpenInGroup
from sessionizer.core.wire import rows
from sessionizer.errors import UnfaithfulState
from sessionizer.home.data_files import remove_tree
from sessionizer.home.data_root import uri_of
from sessionizer.home.lineage_home import LEFT_OUT
from sessionizer.lineage.active import activate_lineage, make_lineage
from sessionizer.lineage.checkpoint import PARTITIONS, go_on_from, next_watermark
from sessionizer.lineage.open_sessions import OpenSessions
from sessionizer.lineage.trial.trial_record import begin_trial
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.guard import Guarded
from sessionizer.spark.query.assembly import session_query
from sessionizer.spark.sinks.unpack import few_blobs_at_a_time
from sessionizer.spark.state.group_logs import FirstLog, blobs_in, carried
from sessionizer.spark.state.lineages.initial_log import packed_anew
from sessionizer.spark.state.open_events import (
    KeptState,
    open_event_schema,
    read_open_events,
    read_timeouts,
    reading_state,
)
from sessionizer.spark.temporary_settings import temporary_settings
from sessionizer.state.lineages.abandoned import remove_abandoned, remove_lineage
from sessionizer.state.lineages.handover import Step, disagreement, furnish
from sessionizer.state.lineages.origin import lineage_before, write_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.state.lineages.handover import Blobs, Handover
    from sessionizer.stream_spec.document.stream import StreamSpec

_SEED_BATCH: Final = 0
_BATCHES_WITHOUT_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(frozen=True, slots=True)
class Seeding:
    """A new lineage. ``spec``: what it runs by, ``examined`` against its source. ``partitions``: of its state.

    ``permit`` returns only while the lease is known to be ours. ``after`` is called with each step that is over.
    ``trial``: the terms of its first batches, None for no trial.
    """

    spark: SparkSession
    home: StreamHome
    spec: StreamSpec
    examined: Examined
    partitions: int
    permit: Callable[[], None]
    after: Callable[[Step], None]
    trial: Terms | None = None

    def run(self, given: DataFrame | KeptState | FirstLog, handover: Handover) -> str:
        """Make a new lineage that begins with the ``given`` state, and return it, active by then.

        ``given``: canonical open events, a kept state, or the logs of as many key groups as ``spec`` has. Raises
        UnfaithfulState if it does not hold the given state, and LeaseLost. Then, as after any failure, nothing of it is
        left. A kill leaves a directory that no driver reads, and that the next call removes.
        """
        self.permit()
        remove_abandoned(self.home)
        lineage = self._made(handover)
        try:
            self._finish_step(Step.MADE)
            with reading_state(self.spark), self._settings():
                first = self._first_log(lineage, given)
                self._seed(lineage, first.rows, handover)
            self._finish_step(Step.SEEDED)
            self._compare(lineage, first.blobs, handover)
            self._finish_step(Step.COMPARED)
            go_on_from(self.home.checkpoint(lineage), handover.offset, handover.seen)
            self._finish_step(Step.POSITIONED)
            furnish(self.home, lineage, handover)
            if self.trial is not None:
                before = lineage_before(self.home, lineage)
                # rows that the user excluded are no sign that it does worse
                terms = replace(self.trial, judges_refused=False) if LEFT_OUT in handover.records else self.trial
                begin_trial(self.home, lineage, handover.origin.verb, before, terms)
            self._finish_step(Step.FURNISHED)
        except Exception:
            remove_lineage(self.home, lineage)
            raise
        activate_lineage(self.home, lineage, handover.origin.parent)
        self.after(Step.ACTIVATED)
        return lineage

    def _finish_step(self, step: Step) -> None:
        """Report the step. Raises LeaseLost, because another run has perhaps removed this lineage."""
        self.after(step)
        self.permit()

    def _made(self, handover: Handover) -> str:
        lineage = make_lineage(self.home, handover.spec)
        write_origin(self.home, lineage, handover.origin)
        self.home.lineage(lineage).no_events.mkdir()
        return lineage

    def _first_log(self, lineage: str, given: DataFrame | KeptState | FirstLog) -> FirstLog:
        """Return the log as it is if the key groups stay the same, else packed anew beside the checkpoint."""
        if isinstance(given, FirstLog):
            return given
        if isinstance(given, KeptState):
            if given.key_groups == self.spec.key_groups:
                return carried(self.spark, given)
            given = read_open_events(self.spark, given)
        folder = self.home.lineage(lineage).first_log
        return packed_anew(self.spark, self.home.name, given, self.spec.key_groups, folder)

    def _seed(self, lineage: str, first_log: DataFrame, handover: Handover) -> None:
        """Run batch 0: the stream's own query over no events, with the state and one punctuation."""
        folder = self.home.punctuations(lineage)
        punctuation.seed(folder, handover.watermark_ms, handover.timeouts)
        learned = OpenSessions(self.home.lineage(lineage).open_sessions)

        def write(emitted: DataFrame, batch_id: int) -> None:
            self.permit()
            learned.learn(batch_id, open_in_groups(emitted, batch_id))

        query = session_query(self.spark, self.spec, self._no_events(lineage), folder, first_log)
        with few_blobs_at_a_time(self.spark):
            query.start(write, self.home.checkpoint(lineage), every_ms=None).awaitTermination()

    def _no_events(self, lineage: str) -> Guarded:
        """Return the rows of the source without any row."""
        guarded, folder = self.examined.guarded, self.home.lineage(lineage).no_events
        nothing = self.spark.readStream.schema(guarded.rows.schema).parquet(uri_of(folder))
        return Guarded(nothing, guarded.payload, guarded.clock)

    def _settings(self) -> AbstractContextManager[None]:
        """Set the number of partitions, which the checkpoint pins from its first batch on, and allow one batch only."""
        return temporary_settings(self.spark, {PARTITIONS: str(self.partitions), _BATCHES_WITHOUT_DATA: "false"})

    def _compare(self, lineage: str, handed_over: Mapping[int, Blobs], handover: Handover) -> None:
        checkpoint = self.home.checkpoint(lineage)
        state = KeptState(checkpoint, _SEED_BATCH, self.spec.key_groups, open_event_schema(handover.kept))
        with reading_state(self.spark):
            found = disagreement(handed_over, blobs_in(self.spark, state))
            timeouts = read_timeouts(self.spark, state)
        if found is None and dict(timeouts) != dict(handover.timeouts):
            found = f"it keeps the timeouts of {len(timeouts)} clients, and {len(handover.timeouts)} were handed over"
        watermark = next_watermark(checkpoint, _SEED_BATCH)
        if found is None and self._has_watermark and watermark != handover.watermark_ms:
            found = f"its watermark is {watermark} ms, and {handover.watermark_ms} ms was handed over"
        if found is not None:
            raise UnfaithfulState(self.home.name, found)
        remove_tree(self.home.lineage(lineage).first_log)

    @property
    def _has_watermark(self) -> bool:
        return self.spec.rules.time_mode == "event_time"


def open_in_groups(emitted: DataFrame, batch_id: int) -> list[tuple[int, OpenInGroup]]:
    """Return the reports of key groups on their first state. Raises ValueError if they emit anything else."""
    found = emitted.collect()
    others = {row.kind for row in found} - {rows.OPEN}
    if batch_id != _SEED_BATCH or others:
        message = f"batch {batch_id} of a lineage that only begins emitted {sorted(others)}"
        raise ValueError(message)
    return [(row.key_group, OpenInGroup.from_json(bytes(row.blob))) for row in found]
