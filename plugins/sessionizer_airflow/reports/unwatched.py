"""Report of streams without supervision: a paused DAG, a removed DAG file, a dead scheduler.

A watch sees a dead driver within seconds and acts. If it can do nothing it gives up, and its own run is red.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.causes.table import remedy_for
from sessionizer.control.records.airflow_records import TOLD_OF_UNWATCHED, WATCH_FILE, SupervisionRecord
from sessionizer.control.records.desired_state import DesiredState
from sessionizer.control.status.driver_status import State
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer.home.names import Verb, dag_id, name_process
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import StreamFindings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.errors import SessionizerError
    from sessionizer.fleet.stream_view import StreamView

DOWN: Final = frozenset({State.FAILED, State.VANISHED, State.STALLED, State.STOPPED})


@dataclass(frozen=True, kw_only=True)
class UnwatchedStream:
    """Stream ``name`` that should run, ``silence`` ms after the last act of its driver or supervisor.

    If its driver lives, ``silence`` counts from the end of the last watch. ``problem``: the error of its spec, which
    therefore has no DAGs.
    """

    name: str
    seen: DriverStatus
    silence: int
    problem: SessionizerError | None = None

    @property
    def line(self) -> str:
        """The problem in one line."""
        if self.seen.state not in DOWN:
            runs = f"{name_process(self.seen.uid)} of stream {self.name} runs, and no supervisor watches it"
            return f"{runs} since {describe_duration(self.silence)} ago"
        what = f"stream {self.name} should run, but its {name_process(self.seen.uid)} is {self.seen.state.lower()}"
        return f"{what}, and no supervisor has acted for {describe_duration(self.silence)}"

    @property
    def what_to_do(self) -> str:
        """The remedy: resume supervision, or set the desired state to stopped."""
        if self.problem is not None:
            return f"{remedy_for(self.problem)}, because a broken spec has no DAGs"
        again = f"unpause {dag_id(self.name, Verb.SUPERVISE)}"
        if self.seen.state not in DOWN:
            again += ", or put its DAG file back"
        else:
            again += " and check that Airflow's scheduler and triggerer run"
        return f"{again}, or run {dag_id(self.name, Verb.STOP)} if it should not run"


def report_unwatched(
    platform_home: Path, streams: Path, patience: int, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Alert users of each new such stream.

    Raises StreamFindings: there are any.
    """
    found = []
    for view in all_streams(platform_home, streams):
        if not view.specified:
            continue
        if view.driver is None:
            say(f"{view.name} cannot be examined: {view.problem}")
            continue
        stream, home = find_unwatched(view, patience, epoch_ms()), StreamHome.of(platform_home, view.name)
        if stream is None:
            TOLD_OF_UNWATCHED.forget(home)
            continue
        found.append(stream)
        if TOLD_OF_UNWATCHED.is_news(home, stream.seen.uid or None):
            tell(_alert(stream))
    if found:
        raise StreamFindings([stream.line for stream in found], "; ".join(stream.what_to_do for stream in found))
    say("every stream that should run runs, or its supervisor acts")


def find_unwatched(view: StreamView, patience: int, now_ms: int) -> UnwatchedStream | None:
    """Return the unwatched stream, or None.

    A stream that was given up is None as well, because users know of it: its DAG is red and paused.
    """
    seen, record = view.owner, view.supervision or SupervisionRecord()
    if seen.desired.state is not DesiredState.RUNNING or record.given_up:
        return None
    if seen.state not in DOWN:
        silence = now_ms - _last_watch(view, now_ms) if seen.state.is_live else 0
    else:
        launched_at = view.driver.launch.at if view.driver and view.driver.launch else 0
        silence = now_ms - _last_move(seen, record, launched_at)
    if silence <= patience:
        return None
    return UnwatchedStream(name=view.name, seen=seen, silence=silence, problem=view.problem)


def _last_watch(view: StreamView, now_ms: int) -> int:
    """Return when the newest watch ended or will end (epoch ms). Without one, a user runs the driver: now."""
    watch = WATCH_FILE.of(view.home).read() if view.home is not None else None
    return watch.until if watch is not None and watch.until else now_ms


def _last_move(seen: DriverStatus, record: SupervisionRecord, launched_at: int) -> int:
    """Return when the driver or its supervisor last acted (epoch ms)."""
    signs = [seen.desired.at, record.last_failure_ms, launched_at]
    signs += [part.at for part in (seen.heartbeat, seen.exit_record) if part is not None]
    return max(signs)


def _alert(stream: UnwatchedStream) -> Alert:
    beat = stream.seen.heartbeat
    return Alert(
        stream=stream.name,
        kind=AlertKind.UNWATCHED,
        reason=stream.line,
        what_to_do=stream.what_to_do,
        lineage=beat.lineage if beat else None,
        batch_id=beat.batch_id if beat else None,
    )
