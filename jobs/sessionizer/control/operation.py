"""An operation under way: after each step its record is on disk, and one that fails early enough is abandoned.

Whoever was too slow and lost the stream's lease writes nothing of it: another run may have finished it meanwhile.
"""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.control.records.desired_state import DesiredState, end_maintenance, read_desired
from sessionizer.control.records.operation_record import Ending, OperationRecord, Reached, write_operation
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import minted_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sessionizer.home.stream_home import StreamHome


@dataclass(slots=True)
class Operation:
    """What is being done to the stream of ``home``; ``record`` says how far it has come, as its file does.

    ``permit`` returns only while the stream's lease is known to be ours. Raises LeaseLost, ControlUnreachable.
    """

    home: StreamHome
    record: OperationRecord
    permit: Callable[[], None]

    def reached(self, stage: Reached) -> None:
        """Note that ``stage`` has been done. One that was noted by a run that was killed stays as it is."""
        if not self.record.has_done(stage):
            self._write(self.record.after(stage))

    def note_rows(self, counts: str, days: str) -> None:
        """Note which rows leave the tables, and of which days. What a run that was killed noted stays as it is."""
        record = self.record
        self._write(replace(record, counts=record.counts or counts, days=record.days or days))

    def over(self, lineage: str) -> OperationRecord:
        """Note that ``lineage`` is the active one, and that nothing is left to do. Returns the record.

        The stream is wanted as it was before that is noted: nobody would type a verb again that is over.
        """
        self._wanted_again("is over")
        self._write(replace(self.record.after(Reached.ACTIVATED, lineage_to=lineage), outcome=Ending.DONE))
        return self.record

    @contextmanager
    def abandoned_if_it_fails(self, before: Reached) -> Iterator[None]:
        """A failure in here, ``before`` that stage was reached, ends the operation: the stream goes on as it was.

        Raises LeaseLost instead where the operation is another run's by now: that one decides what becomes of it.
        """
        try:
            yield
        except Exception:
            if not self.record.has_done(before):
                self.abandon()
            raise

    def abandon(self) -> None:
        """Note that it ends, having changed nothing that counts: the stream is wanted as it was before."""
        self._wanted_again("was abandoned")
        self._write(replace(self.record, outcome=Ending.ABANDONED))

    def _wanted_again(self, what: str) -> None:
        record = self.record
        self.permit()
        end_maintenance(self.home, record.wanted, by=record.by, why=f"{record.verb} {record.id} {what}")

    def _write(self, record: OperationRecord) -> None:
        self.permit()
        self.record = record
        write_operation(self.home, record)


def new_operation(  # noqa: PLR0913  what a record says at first
    home: StreamHome,
    verb: str,
    digest: str,
    by: str,
    leaves: tuple[str, int],
    *,
    savepoint: str = "",
    options: Sequence[str] = (),
) -> OperationRecord:
    """The record of an operation that ``by`` approves now; ``leaves``: the lineage and its newest batch. Not written.

    What people want of the stream now they want afterwards; in the hands of a job that was killed: what they wanted
    after that.
    """
    now, desired = epoch_ms(), read_desired(home)
    wanted = (
        (desired.afterwards or DesiredState.RUNNING) if desired.state is DesiredState.MAINTENANCE else desired.state
    )
    return OperationRecord(
        id=minted_id(now),
        verb=verb,
        stream=home.name,
        by=by,
        digest=digest,
        savepoint=savepoint,
        lineage_from=leaves[0],
        batch_from=leaves[1],
        wanted=wanted,
        begun_at=now,
        options=shlex.join(options),
        step_at=now,
    )
