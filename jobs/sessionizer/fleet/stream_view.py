"""View of one stream: its file, its state, its problems and their remedies. ``streams`` makes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.causes.table import remedy_for
from sessionizer.control.records.desired_state import DesiredState
from sessionizer.errors import DamagedFile
from sessionizer.fleet.actions import Action, find_actions
from sessionizer.fleet.health.judge import judge_health
from sessionizer.fleet.health.verdict import StreamHealth
from sessionizer.home.clock import moment_text
from sessionizer.home.names import Verb, dag_id, name_process

if TYPE_CHECKING:
    from sessionizer.control.records.airflow_records import SupervisionRecord
    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.control.status.unfinished_operation import UnfinishedOperation
    from sessionizer.deployment.waiting import WaitingUpgrade
    from sessionizer.errors import SessionizerError
    from sessionizer.fleet.health.facts import HealthFacts
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.canary.canary_record import CanaryRecord
    from sessionizer.lineage.drained import DrainRecord
    from sessionizer.state.lineages.table_changes import TableChange
    from sessionizer.stream_spec.decisions import Change

INVALID: Final = "INVALID"
"""State of a stream whose spec cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamView:
    """A stream that has a spec file (``specified``), or a home, or both.

    ``driver`` is None if the home cannot be read. ``problem`` says why, or is the error of the spec. ``advice``: the
    remedy, if there is a problem. ``changes``: the differences of its file from the spec that it runs by. ``running``:
    a line about the batch under way, if it takes long. ``waiting``: the upgrade that waits, and ``waiting_line`` what
    becomes of it. ``drain``: the record that its sessions are closed for good. ``canary``: that of its lineage, if a
    verb made the lineage. ``canary_line``: the state of the canary, and the remedy if it failed. ``unfinished``: the
    command that has the stream and is not over. ``excluded_ranges``: those of its source, in words. ``damages``: of its
    records. ``last_operation``: the newest one. ``operation_line``: its failure if it failed lately, or the rollback
    that it was if a canary asked for it. ``table_changes``: changes of its tables by others. ``late_backlog``: too many
    rows of its first batches came late, and the remedy. ``bundle``: DAG bundle of its lineage's newest driver.
    ``facts``: those that it is judged by.
    """

    name: str
    home: StreamHome | None
    specified: bool = True
    problem: SessionizerError | None = None
    driver: DriverStatus | None = None
    supervision: SupervisionRecord | None = None
    advice: str | None = None
    changes: tuple[Change, ...] = ()
    waiting: WaitingUpgrade | None = None
    waiting_line: str | None = None
    running: str | None = None
    drain: DrainRecord | None = None
    canary: CanaryRecord | None = None
    canary_line: str | None = None
    excluded_ranges: tuple[str, ...] = ()
    table_changes: tuple[TableChange, ...] = ()
    unfinished: UnfinishedOperation | None = None
    damages: tuple[SessionizerError, ...] = ()
    last_operation: OperationRecord | None = None
    operation_line: str | None = None
    late_backlog: str | None = None
    bundle: str | None = None
    facts: HealthFacts | None = None

    @property
    def health(self) -> StreamHealth:
        """Its word, and why."""
        return judge_health(self.facts) if self.facts else StreamHealth()

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that it takes now."""
        return find_actions(self.facts) if self.facts else ()

    @property
    def seen(self) -> DriverStatus | None:
        """The status of its newest driver. None if the spec to judge it by is unknown."""
        return self.driver if self.problem is None else None

    @property
    def owner(self) -> DriverStatus:
        """The status of the owner of its lease, whatever the problem of its spec.

        Raises the problem if it is unknown.
        """
        if self.driver is None:
            assert self.problem is not None  # noqa: S101  one of them is always there
            raise self.problem
        return self.driver.owner

    @property
    def state(self) -> str:
        """Name of the state."""
        return str(self.seen.state) if self.seen else INVALID

    @property
    def other_python(self) -> str | None:
        """The Python of another release that its newest driver was launched with. None for the default one."""
        return self.driver.launch.python if self.driver is not None and self.driver.launch is not None else None

    @property
    def is_orphan(self) -> bool:
        """Whether its driver runs without a spec: the file was renamed, or removed. A command needs none."""
        return not self.specified and self.unfinished is None and self.owner.state.is_live

    @property
    def is_listed(self) -> bool:
        """Whether it is listed: it has a spec, or a driver or an unfinished command without one."""
        return self.specified or self.is_orphan or self.unfinished is not None

    @property
    def damage_lines(self) -> list[str]:
        """Line for each damaged record, with the remedy."""
        return [f"{error} → {remedy_for(error)}" for error in self.damages]

    @property
    def exit_code(self) -> int:
        """Exit code of ``status`` because of this stream: not 0 if a record that it needs is lost."""
        lost = [error for error in (self.problem, *self.damages) if isinstance(error, DamagedFile)]
        if lost:
            return DamagedFile.exit_code
        return DamagedFile.exit_code if self.seen is not None and self.seen.damage else 0

    @property
    def orphan_line(self) -> str:
        """Line about an orphan and its remedy, for users."""
        lease = self.owner.lease
        process = f" (pid {lease.pid} on {lease.host})" if lease else ""
        return (
            f"{name_process(self.owner.uid)}{process} of stream {self.name} runs, but no spec describes it (renamed or "
            f"removed?): run `{self.stop_command}`, or put the spec back"
        )

    @property
    def stopped_line(self) -> str | None:
        """Line about a stream that a user has stopped: who, when, why, and how to start it. None for any other."""
        desired = self.driver.desired if self.driver is not None and self.driver.is_as_desired else None
        if desired is None or desired.state is not DesiredState.STOPPED or not desired.at:
            return None
        if Action.START not in self.actions:
            return None
        why = f" ({desired.why})" if desired.why else ""
        unpause = f"unpause {dag_id(self.name, Verb.SUPERVISE)} if it is paused"
        how = f"run {dag_id(self.name, Verb.START)} and {unpause}, or without Airflow `sessionizer run {self.name}`"
        return f"stopped by {desired.by} at {moment_text(desired.at)}{why}. To start it: {how}"

    @property
    def stop_command(self) -> str:
        """Command that ends its driver, at a batch boundary."""
        return f"sessionizer stop {self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the view as JSON."""
        observed = self.seen.to_json() if self.seen else {"state": INVALID}
        changes = [asdict(change) for change in self.changes]
        drained = self.drain.to_json() if self.drain else None
        said = {
            "advice": self.advice,
            "spec_changes": changes,
            "drained": drained,
            "left_out": list(self.excluded_ranges),
        }
        said["operation"] = self.unfinished.to_json() if self.unfinished else None
        said["last_operation"] = self.last_operation.to_json() if self.last_operation else None
        said["damage"] = [*observed.get("damage", ()), *self.damage_lines]
        said["table_changes"] = [change.to_json() for change in self.table_changes]
        said["trial"] = self.canary.to_json() if self.canary else None
        said["waiting_upgrade"] = self.waiting.to_json() if self.waiting else None
        said["python"] = self.other_python
        said["late_backlog"] = self.late_backlog
        said["bundle"] = self.bundle
        said["health"] = self.health.to_json()
        said["actions"] = [*map(str, self.actions)]
        return {"stream": self.name, **observed, **said}
