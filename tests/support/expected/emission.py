"""When a session that is final must have been emitted: told in event time and batches, not by any clock of the test."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sessionizer.core.definition.event import Batch
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import CloseReason, Outcome, Session
from sessionizer.core.definition.rules import Clock, SessionRules


def owed_by_batch(batches: Sequence[Batch], rules: SessionRules) -> list[list[Session]]:
    """For each batch of a backlog, the sessions that must be out when it is over.

    Those were due a step of ``emit_every`` before the clock of the batch before; on arrival, where nothing waits in a
    backlog, before that of the batch itself. What a cap ended is left out: it is looked for when the gap of an event of
    its key group is over, which may be any time later.
    """
    so_far = [sessionize(batches[:number], rules) for number in range(len(batches) + 1)]
    due = [(due_ms, session) for before, after in pairwise(so_far) for due_ms, session in _closed(before, after)]
    looked_for = so_far[:-1] if rules.clock is Clock.EVENT_TIME else so_far[1:]
    return [
        [session for due_ms, session in due if due_ms + rules.emit_every_ms <= outcome.watermark_ms]
        for outcome in looked_for
    ]


def _closed(before: Outcome, after: Outcome) -> Iterator[tuple[int, Session]]:
    """What a batch made final, and when each was due. What only its drain ended is due when it drains."""
    deadlines = {admitted.event: admitted.deadline_ms for admitted in before.open_events}
    for session in after.closed[len(before.closed) :]:
        if session.close_reason is CloseReason.CLOSING_EVENT:
            yield session.ended_at_ms, session
        elif session.close_reason is CloseReason.GAP:
            yield deadlines.get(session.events[-1], after.watermark_ms), session
