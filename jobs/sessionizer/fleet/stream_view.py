"""View of one stream: the facts that were read of it at a moment, and what follows from them. ``streams`` reads it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final

from sessionizer.causes.table import remedy_for
from sessionizer.control.history.sample import Sample
from sessionizer.control.records.erasure_record import ErasureRecord
from sessionizer.control.records.operation_record import Ending, OperationRecord
from sessionizer.control.records.supervision_records import (
    DesiredState,
    Health,
    PauseRecord,
    SupervisionRecord,
    WatchRecord,
)
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.control.status.unfinished_operation import UnfinishedOperation
from sessionizer.control.timeouts import Timeouts
from sessionizer.deployment.waiting import WaitingUpgrade
from sessionizer.errors import DamagedFile, SessionizerError
from sessionizer.fleet.driver_rules import ACTED_WITHIN_MS, describe_end, has_given_up
from sessionizer.fleet.finding import Action, Part, StreamHealth
from sessionizer.fleet.judge import judge_health
from sessionizer.home.clock import DAY, clock_time, moment_text
from sessionizer.home.names import Verb, dag_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import DrainRecord, Lineage
from sessionizer.lineage.canary.canary_record import BY_CANARY, CanaryRecord
from sessionizer.redaction import redact
from sessionizer.state.lineages.table_changes import TableChange
from sessionizer.stream_spec.decisions import Change
from sessionizer.stream_spec.document.stream import StreamSpec

INVALID: Final = "INVALID"
"""State of a stream whose spec cannot be read."""
TOLD_FOR_MS: Final = DAY
"""Ms for which ``status`` shows an abandoned operation."""


@dataclass(frozen=True, kw_only=True)
class StreamView:
    """A stream at ``now`` (epoch ms) that has a spec file (``specified``), or a home, or both.

    ``problem``: the error of its spec, or why its home cannot be read. ``driver`` is None then.

    Records that change with commands and starts: ``operations``, the ``lineage`` and the ``bundle`` of its newest
    driver (None if it never ran), the ``drain``, the ``canary`` if a verb made the lineage, ``excluded_ranges`` of its
    source in words, ``table_changes`` by others, ``damages`` of records, ``changes`` of its file from the spec that it
    runs by, the upgrade that is ``waiting``, erasures that are ``unswept``.

    All others change with batches and looks. ``unfinished``: the command that has the stream. ``canary_line``: where
    the canary stands. ``returned_for``: why the lineage had failed that the newest operation left. ``late_backlog``:
    too many rows of its first batches came late. ``samples`` are of the last minutes. ``free_bytes``: the room on the
    fullest ``disk`` that can be seen from here. ``saved_at`` is the newest savepoint, ``history_since`` the oldest
    record of the history (epoch ms), both None without scheduled savepoints. ``noted``: what Airflow has noted lately
    of its DAGs. ``looks``: those of its supervisor. ``has_watched_spec``: whether the file by which the newest
    ``watch`` supervised it is still there, None if that is unknown.
    """

    name: str
    now: int = 0
    home: StreamHome | None = None
    spec: StreamSpec | None = None
    specified: bool = True
    problem: SessionizerError | None = None

    operations: tuple[OperationRecord, ...] = ()
    lineage: Lineage | None = None
    bundle: str | None = None
    drain: DrainRecord | None = None
    canary: CanaryRecord | None = None
    excluded_ranges: tuple[str, ...] = ()
    table_changes: tuple[TableChange, ...] = ()
    damages: tuple[SessionizerError, ...] = ()
    changes: tuple[Change, ...] = ()
    waiting: WaitingUpgrade | None = None
    unswept: tuple[ErasureRecord, ...] = ()

    driver: DriverStatus | None = None
    supervision: SupervisionRecord | None = None
    unfinished: UnfinishedOperation | None = None
    canary_line: str | None = None
    returned_for: str | None = None
    late_backlog: str | None = None
    samples: tuple[Sample, ...] = ()
    free_bytes: int | None = None
    disk: str = ""
    saved_at: int | None = None
    history_since: int | None = None
    noted: PauseRecord | None = None
    looks: Health | None = None
    watch: WatchRecord | None = None
    has_watched_spec: bool | None = None
    limits: Timeouts = field(default_factory=Timeouts)

    @cached_property
    def health(self) -> StreamHealth:
        """Its word, and why."""
        return judge_health(self)

    @property
    def seen(self) -> DriverStatus | None:
        """The status of its newest driver. None if the spec to judge it by is unknown."""
        return self.driver if self.problem is None else None

    @property
    def owner(self) -> DriverStatus:
        """The status of the owner of its lease, whatever the problem of its spec. Raises the problem if unknown."""
        if self.driver is None:
            assert self.problem is not None  # noqa: S101  one of them is always there
            raise self.problem
        return self.driver.owner

    @property
    def state(self) -> str:
        """Name of the state."""
        return str(self.seen.state) if self.seen else INVALID

    @property
    def pending(self) -> OperationRecord | None:
        """The operation that is not over."""
        return next((record for record in self.operations if record.outcome is None), None)

    @property
    def is_drained(self) -> bool:
        """Whether the stream is over."""
        return self.drain is not None and self.drain.is_over

    @property
    def draining_since(self) -> int | None:
        """The beginning of a drain that is not over (epoch ms)."""
        return self.drain.begun_at if self.drain is not None and not self.drain.is_over else None

    @property
    def save_every_ms(self) -> int | None:
        """Milliseconds between scheduled savepoints."""
        return self.spec.savepoints.every_ms if self.spec else None

    @property
    def paused(self) -> bool:
        """Whether Airflow's DAG of its supervision is paused."""
        return self.noted is not None and self.noted.paused

    @property
    def taken(self) -> str:
        """The name of an asset of the stream that another DAG has in Airflow, empty if none."""
        return self.noted.taken if self.noted else ""

    @property
    def looked_at(self) -> int | None:
        """The last look of a supervisor (epoch ms)."""
        return self.looks.looked_at if self.looks else None

    @property
    def is_watched(self) -> bool:
        """Whether a supervisor has looked at it lately."""
        return self.looked_at is not None and self.now - self.looked_at <= ACTED_WITHIN_MS

    @property
    def has_supervisor(self) -> bool:
        """Whether a supervisor in Airflow starts the next driver. After a command its records tell of no launch."""
        is_launched = self.driver is not None and self.driver.launch is not None
        return self.supervision is not None or is_launched or self.is_watched

    @property
    def is_orphan(self) -> bool:
        """Whether its driver runs without a spec: the file was renamed, or removed. A command needs none."""
        is_live = self.driver is not None and self.driver.owner.state.is_live
        return not self.specified and self.unfinished is None and is_live

    @property
    def is_listed(self) -> bool:
        """Whether it is listed: it has a spec, or a driver or an unfinished command without one."""
        return self.specified or self.is_orphan or self.unfinished is not None

    @property
    def other_python(self) -> str | None:
        """The Python of another release that its newest driver was launched with. None for the default one."""
        return self.driver.launch.python if self.driver is not None and self.driver.launch is not None else None

    @property
    def exit_code(self) -> int:
        """Exit code of ``status`` because of this stream: not 0 if a record that it needs is lost."""
        is_lost = any(isinstance(error, DamagedFile) for error in (self.problem, *self.damages))
        return DamagedFile.exit_code if is_lost or (self.seen is not None and self.seen.damage) else 0

    @property
    def actions(self) -> tuple[Action, ...]:
        """The requests that would not be refused at once, and that change something.

        A stream that a command has takes a stop, which follows the command. A stream that is drained takes only a way
        back to a state before.
        """
        seen, lineage = self.driver, self.lineage
        if seen is None:
            return ()
        is_free, has_run = self.unfinished is None, lineage is not None
        is_steered = self.problem is None and not self.is_orphan and not self.is_drained  # else it has no such DAG
        takes = {
            Action.START: is_steered and is_free and self._takes_start(seen),
            Action.STOP: is_steered and self._takes_stop(seen),
            Action.SAVEPOINT: is_free and has_run and not self.is_drained,
            Action.RESTORE: is_free and has_run,
            Action.ROLLBACK: is_free and lineage is not None and lineage.before is not None,
            Action.PROMOTE: is_free and self.has_canary and not self.is_drained,
            Action.UPGRADE: is_free and has_run and not self.is_drained,
        }
        return tuple(action for action, is_taken in takes.items() if is_taken)

    def _takes_start(self, seen: DriverStatus) -> bool:
        """Whether a start changes something: no supervisor follows the desired state by itself."""
        if seen.desired.state is DesiredState.STOPPED:
            return True
        if seen.state.is_live:
            return self.paused and seen.launch is not None
        return self.paused or has_given_up(self, seen) or not self.is_watched

    def _takes_stop(self, seen: DriverStatus) -> bool:
        """Whether a stop changes something: a driver runs, or is wanted by a user or a supervisor."""
        if seen.desired.state is DesiredState.STOPPED:
            return False
        return seen.state.is_live or bool(seen.desired.at) or self.supervision is not None or seen.launch is not None

    @property
    def has_canary(self) -> bool:
        """Whether its lineage is a canary that is neither promoted nor left."""
        return self.canary is not None and not self.canary.is_settled

    @property
    def notes(self) -> list[str]:
        """Lines about facts that need no judgement."""
        seen = self.driver
        lines = [
            seen.under_way if seen is not None and seen.state.is_live else None,
            self._describe_end(),
            self._describe_stop(),
            describe_abandoned(self.operations, self.now)
            or describe_automatic_rollback(self.operations, self.returned_for, self.now),
            f"drained: over since {self.drain.moment}, batch {self.drain.batch_id}"
            if self.drain is not None and self.drain.is_over
            else None,
            self.canary_line if self.canary is not None and self.canary.is_settled else None,
        ]
        return [redact(line) for line in lines if line]

    def _describe_end(self) -> str | None:
        seen = self.driver
        if seen is None or seen.state not in {State.FAILED, State.VANISHED} or has_given_up(self, seen):
            return None
        if any(each.rule.part is Part.DRIVER for each in self.health.findings):
            return None
        said, how = describe_end(self, seen)
        return f"its driver has {seen.state.lower()}: {said} → {how}"

    def _describe_stop(self) -> str | None:
        desired = self.driver.desired if self.driver is not None and self.driver.is_as_desired else None
        if desired is None or desired.state is not DesiredState.STOPPED or not desired.at:
            return None
        if Action.START not in self.actions:
            return None
        why = f" ({desired.why})" if desired.why else ""
        unpause = f"unpause {dag_id(self.name, Verb.SUPERVISE)} if it is paused"
        how = f"run {dag_id(self.name, Verb.START)} and {unpause}, or without Airflow `sessionizer run {self.name}`"
        return f"stopped by {desired.by} at {moment_text(desired.at)}{why}. To start it: {how}"

    def to_json(self) -> dict[str, Any]:
        """Return the view as JSON."""
        observed = self.seen.to_json() if self.seen else {"state": INVALID}
        damage = [f"{error} → {remedy_for(error)}" for error in self.damages]
        return {
            "stream": self.name,
            **observed,
            "spec_changes": [asdict(change) for change in self.changes],
            "drained": self.drain.to_json() if self.drain else None,
            "excluded_ranges": list(self.excluded_ranges),
            "operation": self.unfinished.to_json() if self.unfinished else None,
            "last_operation": self.operations[-1].to_json() if self.operations else None,
            "damage": [*observed.get("damage", ()), *damage],
            "table_changes": [change.to_json() for change in self.table_changes],
            "canary": self.canary.to_json() if self.canary else None,
            "waiting_upgrade": self.waiting.to_json() if self.waiting else None,
            "python": self.other_python,
            "bundle": self.bundle,
            "health": self.health.to_json(),
            "actions": [*map(str, self.actions)],
            "notes": self.notes,
        }


def describe_abandoned(operations: Sequence[OperationRecord], now: int) -> str | None:
    """Describe the newest operation if it failed and was abandoned within the last day."""
    newest = operations[-1] if operations else None
    if newest is None or newest.outcome is not Ending.ABANDONED or newest.failure is None:
        return None
    if now - (newest.failed_at or 0) > TOLD_FOR_MS:
        return None
    to = f" to {newest.savepoint}" if newest.savepoint else ""
    failed_at = clock_time(newest.failed_at or newest.step_at)
    failed = f"failed at {failed_at} and was abandoned: {newest.failure}. The stream is unchanged"
    return f"{newest.verb}{to}, approved by {newest.by}, {failed}"


def describe_automatic_rollback(operations: Sequence[OperationRecord], reason: str | None, now: int) -> str | None:
    """Describe an automatic rollback of the last day. ``reason``: why the lineage that was left had failed."""
    newest = operations[-1] if operations else None
    if newest is None or not newest.by.startswith(BY_CANARY) or newest.outcome is not Ending.DONE:
        return None
    if now - newest.step_at > TOLD_FOR_MS:
        return None
    left, back = f"lineage {newest.lineage_from} failed: {reason}", f"the stream is back in lineage {newest.lineage_to}"
    return f"{left}. Since {clock_time(newest.step_at)} {back}"
