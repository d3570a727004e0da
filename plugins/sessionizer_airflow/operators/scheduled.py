"""Tasks over many streams: due compactions and savepoints, one job for each, and waiting upgrades.

A waiting upgrade is told once, and begun in the maintenance window of its spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, Context

from sessionizer.control.records.operation_record import pending_operation, read_operations
from sessionizer.control.records.supervision_records import (
    APPROVED_UPGRADE,
    RUN_OF_WINDOW,
    SUPERVISION_FILE,
    TOLD_OF_UPGRADE,
    DesiredState,
    read_desired,
)
from sessionizer.control.status.driver_status import read_driver
from sessionizer.deployment.waiting import (
    Member,
    Opening,
    Pace,
    UpgradeState,
    WaitingUpgrade,
    choose_next,
    decide_upgrade,
    find_waiting,
    open_by_list,
    open_by_window,
    what_follows,
)
from sessionizer.errors import SessionizerError
from sessionizer.home.clock import epoch_ms, moment_text
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import locate_data
from sessionizer.lineage.canary.canary_record import examine_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer.state.commands.restores import Rollback
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.state.compaction.plan import judge_compaction
from sessionizer.state.savepoints.schedule import Judgement, judge_stream, prune_scheduled, reason
from sessionizer.stream_spec.document.stream import Savepoints, StreamSpec
from sessionizer.stream_spec.spec_folder import survey_streams
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.alerting.notification import notify
from sessionizer_airflow.errors import PersonNeeded, StreamFindings
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob, job_of
from sessionizer_airflow.project import OF_LIST, OF_WINDOW, Project

if TYPE_CHECKING:
    Say = Callable[[str], None]
    Tell = Callable[[Alert], None]


class CompactTables(SparkBatchJob):
    """Job that compacts the tables of a stream."""

    def __init__(self, *, stream: str, project: Project, **kwargs: Any) -> None:
        argv = project.job_argv(stream, "compact", options=("--yes",))
        super().__init__(job=job_of(project, f"{stream}.compaction", argv), **kwargs)
        self.stream = stream


def streams_due_for_compaction(project: Project, say: Callable[[str], None]) -> list[dict[str, str]]:
    """Return the arguments for each due stream, and say a line for each stream that asks for compactions.

    A stream that cannot be examined counts as due, so that its own job fails of it, and no other job.
    """
    due = []
    for name, spec in survey_streams(project.streams).specs.items():
        every_ms = spec.compaction.every_ms
        if every_ms is not None:
            judge = partial(judge_compaction, project.home_of(name), every_ms, epoch_ms())
            due += [{"stream": name}] if _is_due(name, judge, say) else []
    return due


def _is_due(stream: str, judge: Callable[[], Judgement], say: Say) -> bool:
    try:
        judgement = judge()
    except (SessionizerError, OSError) as error:
        judgement = Judgement(due=True, because=f"it cannot be looked at: {error}")
    say(f"{stream}: {'due' if judgement.due else 'not due'}: {judgement.because}")
    return judgement.due


LABEL: Final = "{{ task.stream }}"
"""Label of each mapped task in a list: the name of its stream."""


class TakeSavepoint(SparkBatchJob):
    """Job that makes a savepoint with the id ``savepoint`` of the stream's newest batch.

    A complete one is not made again.
    """

    def __init__(self, *, stream: str, savepoint: str, why: str, native: bool, project: Project, **kwargs: Any) -> None:
        argv = project.savepoint_argv(stream, savepoint, why=why, native=native)
        super().__init__(job=job_of(project, f"{stream}.savepoint", argv), **kwargs)
        self.stream = stream


def streams_due_for_savepoints(project: Project, say: Callable[[str], None]) -> list[dict[str, str | bool]]:
    """Return the arguments for each due stream, and say a line for each stream that asks for savepoints.

    A stream that cannot be examined counts as due, so that its own job fails of it, and no other job.
    """
    now = epoch_ms()
    due: list[dict[str, str | bool]] = []
    for home, wanted, every_ms in _asking(project):
        if _is_due(home.name, partial(judge_stream, home, every_ms, now, native=wanted.native), say):
            asked = {"stream": home.name, "savepoint": mint_id(now), "why": reason(every_ms)}
            due.append({**asked, "native": wanted.native})
    return due


def prune_savepoints(project: Project, say: Callable[[str], None]) -> None:
    """Delete the savepoints that the specs do not keep.

    Raises StreamFindings, at the end, for streams where that failed.
    """
    wrong = []
    for home, wanted, _ in _asking(project):
        try:
            prune_scheduled(home, wanted, say)
        except (SessionizerError, OSError) as error:
            wrong.append(f"{home.name}: {error}")
            say(wrong[-1])
    if wrong:
        raise StreamFindings(
            wrong,
            "correct what the message names. `sessionizer savepoint prune <stream> --plan` shows what would be removed",
        )


def _asking(project: Project) -> Iterator[tuple[StreamHome, Savepoints, int]]:
    """Yield the streams whose spec asks for savepoints, with its settings and the time between savepoints, in ms."""
    for name, spec in survey_streams(project.streams).specs.items():
        wanted = spec.savepoints
        if wanted.every_ms is not None:
            yield locate_data(project.home_of(name)), wanted, wanted.every_ms


class StreamsTask(BaseOperator):
    """Task that looks at many streams. It fails, without a retry, if they have findings.

    ``look`` takes a function that logs a line, and one that sends an alert. The task returns its result.
    """

    ui_color = "#dfe6f3"

    def __init__(self, *, look: Callable[[Say, Tell], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.look = look

    def execute(self, context: Context) -> Any:  # noqa: ANN401, ARG002 - the interface
        """Look at the streams."""
        try:
            return self.look(self.log.info, lambda alert: notify(alert, self.log.warning))
        except StreamFindings as error:
            raise PersonNeeded.wrap(error) from None


def runs_to_begin(
    project: Project,
    say: Callable[[str], None],
    tell: Callable[[Alert], None],
    state_of: Callable[[str], str | None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Return the runs that begin now. Alert users of each waiting upgrade once.

    A stream begins none while a command has it, which may be that upgrade, nor while a user has stopped it. Streams
    with an open window, or approved in a list, take turns. ``state_of`` returns Airflow's state of the run of an id,
    None if there is none.
    """
    members, runs = list[Member](), dict[str, dict[str, Any]]()
    for name, spec in survey_streams(project.streams).specs.items():
        home = project.home_of(name)
        waiting = find_waiting(home, spec)
        if waiting is None:
            TOLD_OF_UPGRADE.forget(home)
        try:
            now = epoch_ms()
            if waiting is not None and read_desired(home).state is DesiredState.RUNNING and not pending_operation(home):
                _tell_of(home, spec, waiting, say, tell)
                opening = decide_upgrade(now, spec.upgrades, waiting)
                if opening is not None:
                    runs[name] = _run_of(spec, waiting, opening)
            # an upgrade that is done holds the next wave back until its stream works
            approval = APPROVED_UPGRADE.of(home).read() if waiting is None else waiting.approval
            opening = open_by_list(now, approval) or open_by_window(now, spec.upgrades)
            state = None if opening is None else _state_within(opening, home, runs.get(name), state_of)
        except SessionizerError as error:  # the other streams go on
            say(f"{name}: {error}")
            continue
        if opening is not None and state is not None:
            asks = opening.approver is None
            members.append(Member(stream=name, wave=spec.upgrades.wave, state=state, asks=asks))
    chosen = choose_next(members, Pace.from_environment())
    if chosen.held is not None:
        say(chosen.held)
    for name in chosen.begin:
        RUN_OF_WINDOW.is_news(project.home_of(name), runs[name]["trigger_run_id"])
    return [runs[name] for name in chosen.begin]


def _tell_of(
    home: StreamHome,
    spec: StreamSpec,
    waiting: WaitingUpgrade,
    say: Callable[[str], None],
    tell: Callable[[Alert], None],
) -> None:
    """Alert users of the waiting upgrade once."""
    follows = what_follows(waiting, spec.upgrades, epoch_ms())
    say(f"{home.name}: {waiting.counted}: {follows}")
    if TOLD_OF_UPGRADE.is_news(home, waiting.digest):
        tell(Alert(stream=home.name, kind=AlertKind.UPGRADE_WAITS, reason=waiting.counts, what_to_do=follows))


def _state_within(
    opening: Opening, home: StreamHome, run: Mapping[str, Any] | None, state_of: Callable[[str], str | None]
) -> UpgradeState | None:
    """Return the state of the upgrade in the ``opening``. None if nothing begins and nothing has begun in it.

    ``run``: the one that may begin. Another one than that of before is a new edit, so it waits again.
    """
    now, begun = epoch_ms(), RUN_OF_WINDOW.newest(home)
    state = state_of(begun) if begun is not None and begun.endswith(_end_of_id(opening.until)) else None
    if state in {"queued", "running"}:
        return UpgradeState.RUNS
    if state is None or (run is not None and run["trigger_run_id"] != begun):
        return None if run is None else UpgradeState.WAITS
    return UpgradeState.FAILED if state == "failed" else state_after_run(home, now, still_waits=run is not None)


def state_after_run(home: StreamHome, now: int, *, still_waits: bool) -> UpgradeState:
    """Return whether the stream works after its run. One that ``still_waits`` was rejected or rolled back."""
    operations = read_operations(home)
    if still_waits:
        is_back = bool(operations) and operations[-1].verb == Rollback.name
        return UpgradeState.FAILED if is_back else UpgradeState.DONE
    canary, supervised = examine_canary(home), SUPERVISION_FILE.of(home).read()
    has_failed = canary is not None and canary.outcome is CanaryOutcome.FAILED
    if has_failed or (supervised is not None and supervised.given_up):
        return UpgradeState.FAILED
    if read_desired(home).state is not DesiredState.RUNNING:
        return UpgradeState.DONE
    works = read_driver(home, now).works and (canary is None or canary.is_settled)
    return UpgradeState.DONE if works else UpgradeState.RUNS


def _run_of(spec: StreamSpec, waiting: WaitingUpgrade, opening: Opening) -> dict[str, Any]:
    """Return the run, whose id is the same for the same differences in the same opening."""
    command = Upgrade.make_for_window(spec.upgrades)
    given = {name: (getattr(command, name), option.default) for name, option in command.options().items()}
    begin = OF_LIST if opening.of_list else OF_WINDOW
    return {
        "trigger_run_id": f"{begin}{spec.name}__{waiting.digest}{_end_of_id(opening.until)}",
        "conf": {
            "verb": Upgrade.name,
            "stream": spec.name,
            "why": opening.why,
            **{name: value for name, (value, default) in given.items() if value != default},
        },
    }


def _end_of_id(until_ms: int) -> str:
    """Return the end of the ids of all runs of a window, or of an approved list."""
    return f"__{moment_text(until_ms).removesuffix(' UTC').replace(' ', 'T')}"
