"""The canary of the active lineage during its driver's life: at its start, after its batches, at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sessionizer.causes.cause import KILLED, Cause
from sessionizer.causes.table import QUERY_CAUSES, cause_of, cause_of_error
from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome
from sessionizer.errors import LineageLeft, LineageUnfit, SessionizerError
from sessionizer.errors import RetryEffect as OfCause
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.batch_log import BatchFigures, BatchLog
from sessionizer.lineage.canary.canary_record import CanaryRecord, canary_of_active, read_canary, write_canary
from sessionizer.lineage.canary.judge import CanaryOutcome, End, describe_wait, judge_figures
from sessionizer.redaction import redact

_LINE_LIMIT = 200


@dataclass(slots=True)
class CanaryWatch:
    """An undecided ``canary`` in the driver ``uid``, after the ``ends`` of earlier ones and ``judged`` batches."""

    home: StreamHome
    uid: str
    canary: CanaryRecord
    ends: Sequence[End] = ()
    judged: int = 0

    @classmethod
    def begun_by(cls, home: StreamHome, uid: str) -> CanaryWatch | None:
        """Begin the watch before a driver starts. None without a canary. Raises LineageUnfit, LineageLeft."""
        canary = canary_of_active(home)
        if canary is None or canary.is_settled:
            return None
        if canary.outcome is CanaryOutcome.FAILED:
            raise canary_failure(home.name, canary)
        ends = [end for driver in canary.drivers.split() if (end := end_of(home, driver)) is not None]
        watch = cls(home, uid, canary, ends)
        log = BatchLog(home.lineage(canary.lineage).batches)
        watch.judge(log.life)
        if watch.canary.outcome is not None:
            return None
        drivers = " ".join([*(end.uid for end in ends), uid])
        if watch._was_promoted():
            return None
        watch.canary = replace(canary, drivers=drivers)
        write_canary(home, watch.canary)
        return watch

    def judge(self, figures: BatchFigures) -> None:
        """Decide by the ``figures`` of all its batches. Raises LineageUnfit or LineageLeft if it fails."""
        if self.canary.outcome is not None or self._was_promoted():
            return
        verdict = judge_figures(self.canary.terms, self.canary.baseline, figures, self.ends)
        if verdict.outcome is None:
            return
        self.canary = self.canary.decided(verdict.outcome, verdict.reason)
        write_canary(self.home, self.canary)
        if self._was_promoted():
            return
        said = verdict.reason or ""
        add_mark(
            self.home, Mark(kind=MarkKind.CANARY, what=str(verdict.outcome), text=said, lineage=self.canary.lineage)
        )
        if verdict.outcome is CanaryOutcome.FAILED:
            raise canary_failure(self.home.name, self.canary)

    def judge_batches(self, log: BatchLog) -> str | None:
        """Judge if ``log`` got batches. Returns a line once it is decided. Raises as ``judge``."""
        if self.canary.outcome is not None or log.added == self.judged:
            return None
        self.judged = log.added
        self.judge(log.life)
        return None if self.canary.outcome is None else self.line(log.life)

    def translate_error(self, error: SessionizerError) -> SessionizerError:
        """Return the error that the driver ends with: the failed canary if ``error`` leads to it, else ``error``."""
        cause = cause_of_error(error)
        end = _count_end(self.uid, cause, str(error))
        if end is None:
            return error
        self.ends = [*self.ends, end]
        try:
            self.judge(BatchLog(self.home.lineage(self.canary.lineage).batches).life)
        except (LineageUnfit, LineageLeft) as failed:
            return failed
        except SessionizerError:
            return error  # the driver's own error matters more than that it could not be noted
        return error

    def line(self, figures: BatchFigures) -> str:
        """Describe the state of the canary for the user."""
        return standing_line(self.canary, figures)

    def _was_promoted(self) -> bool:
        """Whether a user accepted the lineage meanwhile, which overrides any finding."""
        found = read_canary(self.home, self.canary.lineage)
        if found is None or found.outcome is not CanaryOutcome.PROMOTED:
            return False
        self.canary = found
        return True


def standing_line(canary: CanaryRecord, figures: BatchFigures) -> str:
    """Describe the state of the canary for the user."""
    name, verb = canary.lineage, canary.verb
    match canary.outcome:
        case CanaryOutcome.PASSED:
            return f"lineage {name} passed its canary after the {verb}"
        case CanaryOutcome.FAILED:
            return f"lineage {name} failed its canary after the {verb}: {canary.reason}"
        case CanaryOutcome.PROMOTED:
            return f"{canary.by} promoted lineage {name} after the {verb}"
        case _:
            all_done = f"{figures.batches} of {canary.terms.batches} batches"
            done = describe_wait(canary.terms, canary.baseline, figures) or all_done
            return f"lineage {name} is a canary after the {verb}: {done}"


def canary_failure(stream: str, canary: CanaryRecord) -> LineageUnfit | LineageLeft:
    """Return the error that a driver of a failed lineage ends with."""
    reason = canary.reason or "no reason was noted"
    if canary.goes_back:
        return LineageLeft(stream, canary.lineage, canary.before or "", reason)
    return LineageUnfit(stream, canary.lineage, canary.before, reason)


def end_of(home: StreamHome, uid: str) -> End | None:
    """Return how the dead driver ``uid`` ended, None if that does not count against its lineage."""
    record = EXIT_FILE.of(home, uid).read()
    if record is None:
        return _count_end(uid, KILLED, KILLED.called)
    if record.outcome is not ExitOutcome.FAILED:
        return None
    message = record.message or ""
    return _count_end(uid, cause_of(record.error_type, message, terminal=record.terminal), message)


def _count_end(uid: str, cause: Cause, message: str) -> End | None:
    """Return an end, unless its cause passes, is an error of a set-up, or would meet the lineage before."""
    if cause.of_any_lineage:
        return None
    words = redact(message).partition("\n")[0][:_LINE_LIMIT]
    if cause.verdict is OfCause.UNCLEAR:
        return End(uid, words)
    if cause.verdict is OfCause.TERMINAL and cause in QUERY_CAUSES:
        return End(uid, words, fatal=True)
    return None
