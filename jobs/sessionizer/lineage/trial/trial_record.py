"""``trial.json`` of a lineage: what it is on trial for, what it is judged against, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.errors import DamagedFile, SessionizerError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_file import examine_json, unreadable, write_json
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.platform_home import owner_name
from sessionizer.home.stamp import require_known_format, stamped
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.trial.batch_log import BatchLog
from sessionizer.lineage.trial.figures import Figures
from sessionizer.lineage.trial.judging import Baseline, Outcome, Terms

if TYPE_CHECKING:
    from sessionizer.home.control_root import ControlPath
    from sessionizer.home.json_record import JsonObject
    from sessionizer.home.stream_home import StreamHome

_SETTLED: Final = {Outcome.PASSED, Outcome.ACCEPTED}
NOTHING: Final = Baseline(Figures(), Figures())


@dataclass(frozen=True, kw_only=True, slots=True)
class Course(JsonRecord):
    """A trial after a ``verb``, of the stream ``owner``; ``before``: the lineage to go back to. Times are epoch ms.

    ``drivers``: uids of those that ran the lineage, but for those that ended as they should, separated by a space.
    """

    verb: str
    owner: str
    begun_at: int
    before: str | None = None
    drivers: str = ""
    outcome: Outcome | None = None
    reason: str | None = None
    decided_at: int | None = None
    by: str | None = None
    """Who accepted the lineage, whatever was found."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The trial of ``lineage``: its ``terms``, the ``baseline``, and the ``course`` that it took so far."""

    lineage: str
    terms: Terms
    course: Course
    baseline: Baseline = field(default=NOTHING)

    @property
    def outcome(self) -> Outcome | None:
        """None while it goes on."""
        return self.course.outcome

    @property
    def goes_back(self) -> bool:
        """Whether it is over, failed, and to be followed by the lineage before without asking anybody."""
        return self.outcome is Outcome.FAILED and self.terms.goes_back and self.course.before is not None

    def decided(self, outcome: Outcome, reason: str | None = None, by: str | None = None) -> Self:
        """The same, over."""
        return replace(self, course=replace(self.course, outcome=outcome, reason=reason, decided_at=epoch_ms(), by=by))

    def to_json(self) -> JsonObject:
        """For the file, and for programs."""
        figures = {"life": self.baseline.life.to_json(), "recent": self.baseline.recent.to_json()}
        return {**self.course.to_json(), "terms": self.terms.to_json(), "baseline": figures}


def begin_trial(home: StreamHome, lineage: str, verb: str, before: str | None, terms: Terms) -> None:
    """Put ``lineage`` on trial before it is the active one, by what that has done so far. Raises UnwritablePath.

    ``before``: the lineage that a rollback would lead to; None where there is no way back.
    """
    left = active_lineage(home)
    baseline = _done_by(home, left, terms) if left else NOTHING
    course = Course(verb=verb, owner=owner_name(home.name, home.control_base), begun_at=epoch_ms(), before=before)
    write_trial(home, Trial(lineage, terms, course, baseline))


def _done_by(home: StreamHome, lineage: str, terms: Terms) -> Baseline:
    """What the lineage did; where that is too little to judge by, what it was itself judged by."""
    log = BatchLog(home.lineage(lineage).batches)
    done, own = Baseline(log.life, log.recent), read_trial(home, lineage)
    return own.baseline if own is not None and not done.fit(terms) else done


def write_trial(home: StreamHome, trial: Trial) -> None:
    """Raises UnwritablePath, DiskFull."""
    write_json(home.lineage(trial.lineage).trial, stamped(trial.to_json()))


def read_trial(home: StreamHome, lineage: str) -> Trial | None:
    """The record; None for a lineage that was never on trial. Raises DamagedFile."""
    path = home.lineage(lineage).trial
    reading = examine_json(path)
    if reading.damage is not None:
        raise unreadable(path, reading)
    return None if reading.value is None else _decoded(reading.value, lineage, path)


def trial_of_active(home: StreamHome) -> Trial | None:
    """As ``read_trial``, of the active lineage."""
    lineage = active_lineage(home)
    return read_trial(home, lineage) if lineage else None


def examine_trial(home: StreamHome) -> Trial | None:
    """As ``trial_of_active``, for those who only look. Never raises."""
    try:
        return trial_of_active(home)
    except SessionizerError:
        return None


def accepted(home: StreamHome, by: str) -> str:
    """What has been done, for people: the trial of the active lineage is over, and speaks for it.

    A driver that runs takes it from its next batch on. Raises OperationPending where a rollback was begun, DamagedFile.
    """
    require_no_operation(home)
    trial = trial_of_active(home)
    if trial is None:
        return f"the lineage of stream {home.name} is on no trial: there is nothing to accept"
    if trial.outcome in _SETTLED:
        return f"lineage {trial.lineage} of stream {home.name} has {trial.outcome} already: there is nothing to accept"
    write_trial(home, trial.decided(Outcome.ACCEPTED, trial.course.reason, by))
    require_no_operation(home)  # again: one that was begun meanwhile leaves the lineage all the same
    return f"stream {home.name} goes on with lineage {trial.lineage}, accepted by {by}"


def _decoded(value: JsonObject, lineage: str, path: ControlPath) -> Trial:
    require_known_format(path, value)
    try:
        figures = value["baseline"]
        baseline = Baseline(Figures.from_json(figures["life"]), Figures.from_json(figures["recent"]))
        return Trial(lineage, Terms.from_json(value["terms"]), Course.from_json(value), baseline)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedFile(path, f"it is no trial: {error}") from error
