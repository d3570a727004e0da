"""A command that is not over, and whether a process still carries it out. Until it is over no driver starts."""

from dataclasses import asdict, dataclass
from typing import Final

from sessionizer.control.records.operation_record import IN_AIRFLOW, OperationRecord, unbegun_commands
from sessionizer.control.records.supervision_records import Desired, DesiredState
from sessionizer.control.status.driver_status import DriverStatus
from sessionizer.control.timeouts import STALE_AFTER_MS
from sessionizer.home.clock import MINUTE, clock_time
from sessionizer.home.json_record import JsonObject
from sessionizer.home.names import Verb, dag_id
from sessionizer.home.stream_home import StreamHome

UNATTENDED_AFTER_MS: Final = 10 * MINUTE
"""Longer than Airflow waits between two tries, plus the start of Spark on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedOperation:
    """The state of the command at a moment.

    ``key`` is its id. ``process`` is the process that has the lease for it, None if none has. ``is_at_work``: that
    process lives and answers. ``last_sign_ms`` (epoch) is the newest sign of any of its tries. ``go_on`` tells a user
    how to resume it. ``is_retried``: Airflow runs the task again whose process was killed.
    """

    key: str
    title: str
    process: str | None
    is_at_work: bool
    last_sign_ms: int
    go_on: str
    is_retried: bool = False

    @property
    def what_to_do(self) -> str:
        """The next step of a user, while the command may still be carried out by another try."""
        return "wait, because Airflow tries it again by itself" if self.is_retried else self.go_on

    def is_unattended(self, now_ms: int, patience_ms: int = UNATTENDED_AFTER_MS) -> bool:
        """Whether no process has carried it out for so long that no retry is to be expected."""
        return not self.is_at_work and now_ms - self.last_sign_ms > patience_ms

    @property
    def try_key(self) -> str:
        """A name for its newest try. If that try dies as well, another notification is sent."""
        return f"{self.key}@{self.last_sign_ms}"

    @property
    def standing(self) -> str:
        """The stage of the command and the process that carries it out. The text is stable while nothing changes."""
        since = clock_time(self.last_sign_ms)
        if self.is_at_work:
            return f"{self.title}, and {self.process} has the stream's lease"
        if self.process is None:
            return f"{self.title}, and no process has worked on it since {since}"
        return f"{self.title}, and {self.process}, which has the stream's lease, has given no sign since {since}"

    def to_json(self) -> JsonObject:
        """Convert it for programs."""
        return {name: value for name, value in asdict(self).items() if name != "is_retried"}


def read_unfinished(
    home: StreamHome, pending: OperationRecord | None, owner: DriverStatus, now_ms: int
) -> UnfinishedOperation | None:
    """Return the unfinished command of the stream, or None. Raises DamagedFile, ControlUnreachable."""
    early = pending is None and owner.desired.state is DesiredState.MAINTENANCE
    unbegun = next(iter(unbegun_commands(home)), None) if early else None
    return find_unfinished_operation(home.name, pending, owner, now_ms, unbegun)


def find_unfinished_operation(
    stream: str,
    pending: OperationRecord | None,
    owner: DriverStatus,
    now_ms: int,
    unbegun: OperationRecord | None = None,
) -> UnfinishedOperation | None:
    """Return the unfinished command. One killed early has maintenance, and the ``unbegun`` record."""
    desired, known = owner.desired, pending or unbegun
    if pending is None and desired.state is not DesiredState.MAINTENANCE:
        return None
    return UnfinishedOperation(
        key=f"maintenance-{desired.at}" if pending is None else pending.id,
        title=_title_of_maintenance(desired) if pending is None else _title(pending),
        process=_process(owner),
        is_at_work=_is_at_work(owner, now_ms),
        last_sign_ms=_last_sign(pending, owner),
        go_on=_go_on_early(stream, unbegun) if pending is None else _go_on(pending),
        # a task of Airflow carries it out, and did not fail: its worker or its process was killed
        is_retried=known is not None and known.by.endswith(IN_AIRFLOW) and known.failure is None,
    )


def _title(pending: OperationRecord) -> str:
    to = f" to {pending.savepoint}" if pending.savepoint else ""
    come = f"has reached {pending.reached} at {clock_time(pending.step_at)}"
    failed = f" (its last try failed: {pending.failure})" if pending.failure else ""
    return f"{pending.verb}{to}, approved by {pending.by}, {come}{failed}"


def _title_of_maintenance(desired: Desired) -> str:
    asked = ", ".join(part for part in (desired.by and f"by {desired.by}", desired.why) if part)
    return f"maintenance ({asked}) began at {clock_time(desired.at)}"


def _process(owner: DriverStatus) -> str | None:
    lease = owner.lease
    if lease is None or not owner.state.is_live:
        return None
    return f"pid {lease.pid} on {lease.host}" if lease.pid is not None else f"{lease.uid or 'an unknown process'}"


def _is_at_work(owner: DriverStatus, now_ms: int) -> bool:
    if owner.lease is None or not owner.state.is_live:
        return False
    if owner.heartbeat is None:
        return owner.alive is True  # it has the lease, and did not beat yet
    return now_ms - owner.heartbeat.at <= STALE_AFTER_MS


def _last_sign(pending: OperationRecord | None, owner: DriverStatus) -> int:
    signs = [owner.desired.at if owner.desired.state is DesiredState.MAINTENANCE else 0]
    signs += [pending.step_at] if pending else []
    signs += [owner.lease.acquired_at, owner.lease.vacated_at or 0] if owner.lease else []
    signs += [part.at for part in (owner.heartbeat, owner.exit_record) if part is not None]
    return max(signs)


def _go_on_early(stream: str, unbegun: OperationRecord | None) -> str:
    again = "run its command again" if unbegun is None else _run_again(unbegun)
    unpause = f"unpause {dag_id(stream, Verb.SUPERVISE)} if it is paused"
    start = f"or run {dag_id(stream, Verb.START)} and {unpause}, to run the stream as it is"
    return f"{again}, {start}. To give it up: `{abandon_command(stream)}`"


def _go_on(pending: OperationRecord) -> str:
    given_up = "" if pending.is_past_return else f". To give it up: `{abandon_command(pending.stream)}`"
    return f"{_run_again(pending)}: it resumes where it was{given_up}"


def _run_again(record: OperationRecord) -> str:
    clear = "clear its task carry_out in Airflow, or " if record.by.endswith(IN_AIRFLOW) else ""
    return f"{clear}run `{record.command}`"


def abandon_command(stream: str) -> str:
    """Compose the command that gives an operation up."""
    return f"sessionizer abandon {stream}"


def stays_stopped(record: OperationRecord, *, has_begun: bool = True) -> list[str]:
    """Say how to continue or give up an operation that failed, and that stays pending or waits for the stream."""
    begun = f"stays stopped: its {record.verb} has reached {record.reached}"
    waits = f"stays stopped, or stops after its batch: its {record.verb} has not begun"
    lines = [f"stream {record.stream} {begun if has_begun else waits}", f"to resume: {record.command}"]
    return lines if record.is_past_return else [*lines, f"to give it up: {abandon_command(record.stream)}"]
