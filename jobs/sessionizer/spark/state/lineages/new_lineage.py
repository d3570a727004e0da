"""New lineage that begins with a state: started in a batch of its own, read back, compared, then activated.

The lineage before it is not touched, and no driver reads the new one before its last step (docs/adr/0084).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.batch_logs import next_watermark
from sessionizer.checkpoint.file_lists import write_start_position
from sessionizer.checkpoint.names import PARTITIONS
from sessionizer.core.key_group.group_load import OpenInGroup
from sessionizer.core.wire import rows
from sessionizer.counts import count_text
from sessionizer.errors import UnfaithfulState
from sessionizer.home.data_files import make_listed_folder, remove_tree
from sessionizer.home.roots import uri_of
from sessionizer.lineage.active import activate_lineage, make_lineage
from sessionizer.lineage.canary.canary_record import begin_canary
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE
from sessionizer.lineage.open_sessions import OpenSessions
from sessionizer.spark.ingest import punctuation
from sessionizer.spark.ingest.guard import Guarded
from sessionizer.spark.query.assembly import session_query
from sessionizer.spark.session import temporary_settings
from sessionizer.spark.sinks.write import few_blobs_at_a_time
from sessionizer.spark.state.group_logs import FirstLog, digest_blobs, keep_logs
from sessionizer.spark.state.lineages.initial_log import DividedEvents, count_by_key, divide, pack_events
from sessionizer.spark.state.open_events import (
    KeptState,
    open_event_schema,
    read_at_head,
    read_state_timeouts,
    reading_state,
)
from sessionizer.state.lineages.abandoned import remove_abandoned, remove_lineage
from sessionizer.state.lineages.origin import ORIGIN_FILE, lineage_before
from sessionizer.state.lineages.state_transfer import LineageStep, disagreement, write_records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.spark.sinks.examine import Examined
    from sessionizer.state.lineages.state_transfer import Blobs, StateTransfer
    from sessionizer.stream_spec.document.stream import StreamSpec

_SEED_BATCH: Final = 0
_BATCHES_WITHOUT_DATA: Final = "spark.sql.streaming.noDataMicroBatches.enabled"


@dataclass(slots=True)
class NewLineage:
    """A new lineage, which begins as ``transfer`` says. ``spec``: what it runs by, ``examined`` against its source.

    ``partitions``: of its state. ``permit`` returns only while the lease is known to be ours. ``after`` is called with
    each part that is over. Each part raises LeaseLost.
    """

    spark: SparkSession
    home: StreamHome
    spec: StreamSpec
    examined: Examined
    partitions: int
    transfer: StateTransfer
    permit: Callable[[], None]
    after: Callable[[LineageStep], None]
    lineage: str = field(default="", init=False)
    _blobs: Mapping[int, Blobs] = field(default_factory=dict, init=False)
    _may_be_active: bool = field(default=False, init=False)

    def start(self, given: DataFrame | KeptState | FirstLog | DividedEvents) -> None:
        """Make the lineage and its batch 0, with the ``given`` state.

        ``given``: canonical open events, those divided among as many key groups as ``spec`` has, the logs of as many,
        or a kept state.
        """
        remove_abandoned(self.home)
        self.lineage = make_lineage(self.home, self.transfer.spec)
        ORIGIN_FILE.of(self.home, self.lineage).write(self.transfer.origin)
        make_listed_folder(self.home.lineage(self.lineage).no_events)
        self._finish_part(LineageStep.MADE)
        with reading_state(self.spark), self._settings():
            first = self._first_log(given)
            self._seed(first.rows)
        self._blobs = first.blobs
        self._finish_part(LineageStep.SEEDED)

    def compare(self) -> None:
        """Read the state back. Raises UnfaithfulState if it is not the given one."""
        found = self._difference()
        if found is not None:
            raise UnfaithfulState(self.home.name, found)
        remove_tree(self.home.lineage(self.lineage).first_log)
        self._finish_part(LineageStep.COMPARED)

    def set_position(self) -> None:
        """Set the position of the source, then write the files that Spark does not write."""
        write_start_position(self.home.checkpoint(self.lineage), self.transfer.offset, self.transfer.seen)
        self._finish_part(LineageStep.POSITIONED)
        write_records(self.home, self.lineage, self.transfer)
        self._finish_part(LineageStep.RECORDED)

    def begin_canary(self, terms: CanaryTerms) -> None:
        """Begin the canary of the lineage. Rows that the user excluded are no sign that it is worse."""
        if EXCLUDED_RANGES_FILE.name in self.transfer.records:
            terms = replace(terms, judges_refused=False)
        before = lineage_before(self.home, self.lineage)
        begin_canary(self.home, self.lineage, self.transfer.origin.verb, before, terms)

    def activate(self) -> str:
        """Make it the active lineage, and return it. From here on ``remove`` leaves it alone."""
        self._may_be_active = True
        before = lineage_before(self.home, self.lineage)
        activate_lineage(self.home, self.lineage, self.transfer.origin.parent, before)
        self.after(LineageStep.ACTIVATED)
        return self.lineage

    def remove(self) -> None:
        """Remove all of it, unless it was made active: another process may have completed the command by now."""
        if self.lineage and not self._may_be_active:
            remove_lineage(self.home, self.lineage)

    def _finish_part(self, step: LineageStep) -> None:
        """Report the part. Raises LeaseLost, because another run has perhaps removed this lineage."""
        self.after(step)
        self.permit()

    def _first_log(self, given: DataFrame | KeptState | FirstLog | DividedEvents) -> FirstLog:
        """Return the log as it is if its key groups and revision stay, else packed anew beside the checkpoint."""
        if isinstance(given, FirstLog):
            return given
        if isinstance(given, KeptState):
            if given.key_groups == self.spec.key_groups and given.revision == rows.REVISION:
                return keep_logs(self.spark, given)
            given = read_at_head(self.spark, given)
        folder = self.home.lineage(self.lineage).first_log
        if not isinstance(given, DividedEvents):
            groups = self.spec.key_groups
            given = DividedEvents(divide(given, groups, folder / "shares"), groups, count_by_key(given, groups))
        return pack_events(self.spark, self.home.name, given, folder / "packed")

    def _seed(self, first_log: DataFrame) -> None:
        """Run batch 0: the stream's own query over no events, with the state and one punctuation."""
        folder = self.home.punctuations(self.lineage)
        punctuation.seed(folder, self.transfer.watermark_ms, self.transfer.timeouts)
        learned = OpenSessions(self.home.lineage(self.lineage).open_sessions)

        def write(emitted: DataFrame, batch_id: int) -> None:
            self.permit()
            learned.learn(batch_id, open_in_groups(emitted, batch_id))

        query = session_query(self.spark, self.spec, self._no_events(), folder, first_log)
        with few_blobs_at_a_time(self.spark):
            query.start(write, self.home.checkpoint(self.lineage), every_ms=None).awaitTermination()

    def _no_events(self) -> Guarded:
        """Return the rows of the source without any row."""
        guarded, folder = self.examined.guarded, self.home.lineage(self.lineage).no_events
        nothing = self.spark.readStream.schema(guarded.rows.schema).parquet(uri_of(folder))
        return Guarded(nothing, guarded.payload)

    def _settings(self) -> AbstractContextManager[None]:
        """Set the number of partitions, which the checkpoint pins from its first batch on, and allow one batch only."""
        return temporary_settings(self.spark, {PARTITIONS: str(self.partitions), _BATCHES_WITHOUT_DATA: "false"})

    def _difference(self) -> str | None:
        """Say how the state differs from the given one, None if it does not."""
        checkpoint, given = self.home.checkpoint(self.lineage), self.transfer
        state = KeptState(checkpoint, _SEED_BATCH, self.spec.key_groups, open_event_schema(given.kept))
        with reading_state(self.spark):
            found = disagreement(self._blobs, digest_blobs(self.spark, state))
            timeouts = read_state_timeouts(self.spark, state)
        if found is not None:
            return found
        if dict(timeouts) != dict(given.timeouts):
            kept = count_text(len(timeouts), "client")
            return f"it keeps the timeouts of {kept}, and was given those of {len(given.timeouts)}"
        watermark = next_watermark(checkpoint, _SEED_BATCH)
        if self._has_watermark and watermark != given.watermark_ms:
            return f"its watermark is {watermark} ms, and {given.watermark_ms} ms was handed over"
        return None

    @property
    def _has_watermark(self) -> bool:
        return self.spec.rules.clock.has_watermark


def open_in_groups(emitted: DataFrame, batch_id: int) -> list[tuple[int, OpenInGroup]]:
    """Return the reports of key groups on their first state. Raises ValueError if they emit anything else."""
    found = emitted.collect()
    others = {row.kind for row in found} - {rows.OPEN}
    if batch_id != _SEED_BATCH or others:
        raise ValueError(f"batch {batch_id} of a lineage that only begins emitted {sorted(others)}")
    return [(row.key_group, OpenInGroup.from_json(bytes(row.blob))) for row in found]
