"""Records of a canary, its watch by a driver, and changes of a stream that has not started since.

A promotion has a file of its own, because a driver or supervisor that judges at that moment replaces ``canary.json``.
The supervisor judges a lineage whose code or spec never started, because it sees every start from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from sessionizer.causes.cause import KILLED, Cause
from sessionizer.causes.table import QUERY_CAUSES, cause_of, cause_of_error
from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.records.operation_record import Ending, OperationRecord, read_operations, require_no_operation
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome
from sessionizer.control.records.supervision_records import HEALTH_FILE
from sessionizer.errors import LineageLeft, LineageUnfit, SessionizerError
from sessionizer.errors import RetryEffect as OfCause
from sessionizer.home.clock import epoch_ms
from sessionizer.home.home_identity import owner_name
from sessionizer.home.json_record import JsonObject, JsonRecord, Moment
from sessionizer.home.record_file import LineageFile
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, examine_active, read_lineage, require_lineage
from sessionizer.lineage.batch_log import BatchFigures, BatchLog
from sessionizer.lineage.canary.judge import (
    Baseline,
    CanaryOutcome,
    CanaryTerms,
    End,
    describe_wait,
    judge_figures,
)
from sessionizer.redaction import redact

_SETTLED: Final = {CanaryOutcome.PASSED, CanaryOutcome.PROMOTED}
BY_CANARY: Final = "the canary of lineage "
"""Beginning of the approver's name of an automatic rollback."""
NOTHING: Final = Baseline(BatchFigures(), BatchFigures())


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryRecord(JsonRecord):
    """The canary of ``lineage`` after a ``verb``, of the stream ``owner``, by its ``terms``. Times are epoch ms.

    ``before``: the lineage to roll back to. ``drivers``: uids of the drivers that ran the lineage, separated by a
    space, without those that ended as they should. ``outcome``: None while the canary is open. ``baseline``: the
    figures that it is compared with. The file does not name its lineage.
    """

    verb: str
    owner: str
    begun_at: Moment
    before: str | None = None
    drivers: str = ""
    outcome: CanaryOutcome | None = None
    reason: str | None = None
    decided_at: Moment | None = None
    by: str | None = None
    """User who promoted the lineage, whatever was found."""
    terms: CanaryTerms
    baseline: Baseline
    lineage: str = ""

    @property
    def goes_back(self) -> bool:
        """Whether the canary failed and the lineage before follows without asking the user."""
        return self.outcome is CanaryOutcome.FAILED and self.terms.goes_back and self.before is not None

    @property
    def is_settled(self) -> bool:
        """Whether the lineage is kept: it passed its canary, or a user promoted it."""
        return self.outcome in _SETTLED

    def decided(self, outcome: CanaryOutcome, reason: str | None = None) -> Self:
        """Return the canary as over."""
        return replace(self, outcome=outcome, reason=reason, decided_at=epoch_ms())

    def to_json(self) -> JsonObject:
        """Return the content of the file, which programs read as well."""
        return {name: value for name, value in JsonRecord.to_json(self).items() if name != "lineage"}


CANARY_FILE: Final = LineageFile("canary.json", CanaryRecord)


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion(JsonRecord):
    """The promotion ``by`` a user of the canary ``begun_at`` then. A lineage changed in place has several canaries."""

    begun_at: Moment
    by: str
    at: Moment


PROMOTION_FILE: Final = LineageFile("promoted.json", Promotion)
"""Only users write it, so that nothing overwrites their decision."""


def begin_canary(home: StreamHome, lineage: str, verb: str, before: str | None, terms: CanaryTerms) -> None:
    """Make ``lineage`` a canary before it is active. ``before``: where a rollback would lead. Raises UnwritablePath."""
    left, baseline = active_lineage(home), NOTHING
    if left is not None:
        log, own = BatchLog(home.lineage(left).batches), read_canary(home, left)
        done = Baseline(log.life, log.recent)
        # too few figures to judge by: the baseline of its own canary, if it has one
        baseline = own.baseline if own is not None and not done.fit(terms) else done
    new = CanaryRecord(
        verb=verb,
        owner=owner_name(home.name, home.control_base),
        begun_at=epoch_ms(),
        before=before,
        terms=terms,
        baseline=baseline,
        lineage=lineage,
    )
    write_canary(home, new)


def write_canary(home: StreamHome, canary: CanaryRecord) -> None:
    """Write the record. Raises UnwritablePath, DiskFull."""
    CANARY_FILE.of(home, canary.lineage).write(canary)


def read_canary(home: StreamHome, lineage: str) -> CanaryRecord | None:
    """Read the record, None for a lineage that was never a canary. Raises DamagedFile."""
    kept = CANARY_FILE.of(home, lineage).require()
    if kept is None:
        return None
    canary, promotion = replace(kept, lineage=lineage), PROMOTION_FILE.of(home, lineage).require()
    if promotion is None or promotion.begun_at != canary.begun_at or canary.outcome is CanaryOutcome.PROMOTED:
        return canary
    return replace(canary, outcome=CanaryOutcome.PROMOTED, decided_at=promotion.at, by=promotion.by)


def canary_of_active(home: StreamHome) -> CanaryRecord | None:
    """Read the canary of the active lineage, None if it was never a canary. Raises DamagedFile."""
    lineage = active_lineage(home)
    return read_canary(home, lineage) if lineage else None


def examine_canary(home: StreamHome) -> CanaryRecord | None:
    """Read the canary of the active lineage for a command that only reads. Never raises."""
    return examine_active(home, read_canary)


def promote_lineage(home: StreamHome, by: str) -> str:
    """Promote the active lineage, and return a message. Raises NothingToSave, OperationPending, DamagedFile."""
    require_no_operation(home)
    require_lineage(home)
    canary = canary_of_active(home)
    if canary is None:
        return f"the lineage of stream {home.name} is no canary, so it needs no promotion"
    if canary.is_settled:
        how = "was promoted" if canary.outcome is CanaryOutcome.PROMOTED else "passed its canary"
        return f"lineage {canary.lineage} of stream {home.name} needs no promotion: it {how} already"
    promotion = Promotion(begun_at=canary.begun_at, by=by, at=epoch_ms())
    PROMOTION_FILE.of(home, canary.lineage).write(promotion)
    add_mark(home, Mark(kind=MarkKind.CANARY, what=str(CanaryOutcome.PROMOTED), lineage=canary.lineage, by=by))
    require_no_operation(home)  # again: a rollback that was begun meanwhile leaves the lineage all the same
    return f"stream {home.name} continues with lineage {canary.lineage}, promoted by {by}"


@dataclass(frozen=True, slots=True)
class UnstartedLineage:
    """The active ``lineage`` of ``stream`` without a batch since a command changed it, in place after ``savepoint``.

    ``before``: the lineage that a rollback leads to. ``rolls_back``: automatically, as a user approved, after that many
    failed ``starts``.
    """

    stream: str
    lineage: str
    before: str | None = None
    savepoint: str | None = None
    rolls_back: bool = False
    starts: int = CanaryTerms().drivers

    @property
    def way_back(self) -> str:
        """Say how a user returns to the state before. Empty if there is no way."""
        if self.before is not None:
            return f"run `sessionizer rollback {self.stream}` to return to lineage {self.before}"
        if self.savepoint is not None:
            return f"run `sessionizer restore {self.stream} {self.savepoint}` to return to the state before the change"
        return ""


def examine_unstarted(home: StreamHome) -> UnstartedLineage | None:
    """Return the active lineage if no batch was made since a command changed it. Never raises."""
    try:
        active = read_lineage(home)
        if active is None:
            return None
        if BatchLog(home.lineage(active.lineage).batches).has_batches:
            return _changed_in_place(home, active.lineage)
        if active.parent is None:
            return None
        canary = read_canary(home, active.lineage)
        if canary is None:
            return UnstartedLineage(home.name, active.lineage, active.before)
        before, is_open = canary.before, canary.outcome is None
        rolls_back = is_open and canary.terms.goes_back and before is not None
        return UnstartedLineage(home.name, active.lineage, before, rolls_back=rolls_back, starts=canary.terms.drivers)
    except (SessionizerError, OSError):  # the driver's own end, or the next command, reports a damaged record
        return None


def find_change_in_place(home: StreamHome, lineage: str) -> tuple[OperationRecord, str] | None:
    """Return the newest finished command if it changed ``lineage`` in place, and its savepoint's id."""
    done = [each for each in read_operations(home) if each.outcome is Ending.DONE]
    newest = done[-1] if done else None
    if newest is None or not newest.lineage_from == newest.lineage_to == lineage:
        return None
    return newest, f"{newest.verb}-{newest.id}"


def _changed_in_place(home: StreamHome, lineage: str) -> UnstartedLineage | None:
    if (found := find_change_in_place(home, lineage)) is None:
        return None
    change, savepoint = found
    health = HEALTH_FILE.of(home).read()
    is_at_work = health is not None and health.worked_at > change.step_at
    return None if is_at_work else UnstartedLineage(home.name, lineage, savepoint=savepoint)


def fail_unstarted(home: StreamHome, lineage: str, reason: str) -> None:
    """Fail the open canary of the active ``lineage``, so that the next driver rolls back. Idempotent."""
    canary = canary_of_active(home)
    if canary is None or canary.lineage != lineage or canary.outcome is not None:
        return  # a user promoted or left it meanwhile
    write_canary(home, canary.decided(CanaryOutcome.FAILED, reason))
    add_mark(home, Mark(kind=MarkKind.CANARY, what=str(CanaryOutcome.FAILED), text=reason, lineage=lineage))


_LINE_LIMIT: Final = 200


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
        lineage, said = self.canary.lineage, verdict.reason or ""
        add_mark(self.home, Mark(kind=MarkKind.CANARY, what=str(verdict.outcome), text=said, lineage=lineage))
        if verdict.outcome is CanaryOutcome.FAILED:
            raise canary_failure(self.home.name, self.canary)

    def judge_batches(self, log: BatchLog) -> str | None:
        """Judge if ``log`` got batches. Returns a line once it is decided. Raises LineageUnfit, LineageLeft."""
        if self.canary.outcome is not None or log.added == self.judged:
            return None
        self.judged = log.added
        self.judge(log.life)
        return None if self.canary.outcome is None else self.line(log.life)

    def translate_error(self, error: SessionizerError) -> SessionizerError:
        """Return the error that the driver ends with: the failed canary if ``error`` leads to it, else ``error``."""
        end = _count_end(self.uid, cause_of_error(error), str(error))
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
