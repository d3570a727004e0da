"""Records of a canary, and changes of a stream that has not started since.

A promotion has a file of its own, because a driver or supervisor that judges at that moment replaces ``canary.json``.
The supervisor judges a lineage whose code or spec never started, because it sees every start from outside.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.records.operation_record import Ending, OperationRecord, read_operations, require_no_operation
from sessionizer.control.records.supervision_records import HEALTH_FILE
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.home_identity import owner_name
from sessionizer.home.json_record import JsonObject, JsonRecord, Moment
from sessionizer.home.record_file import LineageFile
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, examine_active, read_lineage, require_lineage
from sessionizer.lineage.batch_log import BatchFigures, BatchLog
from sessionizer.lineage.canary.judge import Baseline, CanaryOutcome, CanaryTerms

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
    """Promote the active lineage, which ends its canary with the next batch, and return a message for the user.

    Raises NothingToSave for a stream that never ran, OperationPending if a rollback was begun, and DamagedFile.
    """
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
    found = find_change_in_place(home, lineage)
    health = HEALTH_FILE.of(home).read()
    if found is None or (health is not None and health.worked_at > found[0].step_at):
        return None
    return UnstartedLineage(home.name, lineage, savepoint=found[1])


def fail_unstarted(home: StreamHome, lineage: str, reason: str) -> None:
    """Fail the open canary of the active ``lineage``, so that the next driver rolls back. Idempotent."""
    canary = canary_of_active(home)
    if canary is None or canary.lineage != lineage or canary.outcome is not None:
        return  # a user promoted or left it meanwhile
    write_canary(home, canary.decided(CanaryOutcome.FAILED, reason))
    add_mark(home, Mark(kind=MarkKind.CANARY, what=str(CanaryOutcome.FAILED), text=reason, lineage=lineage))
