"""Tasks over many streams: due compactions and savepoints, one job for each, and waiting upgrades.

A waiting upgrade is told once, and begun in the maintenance window of its spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, Context

from sessionizer.control.records.supervision_records import (
    RUN_OF_WINDOW,
    TOLD_OF_UPGRADE,
)
from sessionizer.deployment.waiting import (
    Opening,
    Pace,
    WaitingUpgrade,
    choose_next,
    find_waiting,
    what_follows,
)
from sessionizer.errors import SessionizerError
from sessionizer.fleet.waves import Turn, find_turn, is_ready
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import locate_data
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.state.compaction.plan import judge_compaction
from sessionizer.state.savepoints.schedule import Judgement, judge_stream, prune_scheduled, reason
from sessionizer.stream_spec.document.stream import Savepoints, StreamSpec
from sessionizer.stream_spec.spec_folder import survey_streams
from sessionizer_airflow.alerting import Alert, AlertKind, notify
from sessionizer_airflow.errors import PersonNeeded, StreamFindings
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob
from sessionizer_airflow.project import Project

if TYPE_CHECKING:
    Say = Callable[[str], None]
    Tell = Callable[[Alert], None]


class CompactTables(SparkBatchJob):
    """Job that compacts the tables of a stream."""

    def __init__(self, *, stream: str, project: Project, **kwargs: Any) -> None:
        argv = project.job_argv(stream, "compact", options=("--yes",))
        super().__init__(project=project, name=f"{stream}.compaction", arguments=argv, **kwargs)
        self.stream = stream


def streams_due_for_compaction(project: Project, say: Callable[[str], None]) -> list[dict[str, str]]:
    """Return the arguments for each due stream, and say why. One that cannot be examined fails in its own job."""
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
    """Job that makes the savepoint with the id ``savepoint`` of the newest batch, unless it is complete."""

    def __init__(self, *, stream: str, savepoint: str, why: str, native: bool, project: Project, **kwargs: Any) -> None:
        argv = project.savepoint_argv(stream, savepoint, why=why, native=native)
        super().__init__(project=project, name=f"{stream}.savepoint", arguments=argv, **kwargs)
        self.stream = stream


def streams_due_for_savepoints(project: Project, say: Callable[[str], None]) -> list[dict[str, str | bool]]:
    """Return the arguments for each due stream, and say why. One that cannot be examined fails in its own job."""
    now = epoch_ms()
    due: list[dict[str, str | bool]] = []
    for home, wanted, every_ms in _asking(project):
        if _is_due(home.name, partial(judge_stream, home, every_ms, now, native=wanted.native), say):
            asked = {"stream": home.name, "savepoint": mint_id(now), "why": reason(every_ms)}
            due.append({**asked, "native": wanted.native})
    return due


def prune_savepoints(project: Project, say: Callable[[str], None]) -> None:
    """Delete the savepoints that the specs do not keep. Raises StreamFindings at the end, for failures."""
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
    """Task that returns the result of ``look``, called with a log and an alert function. It fails without a retry."""

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
    turns, runs = list[Turn](), dict[str, dict[str, Any]]()
    for name, spec in survey_streams(project.streams).specs.items():
        home = project.home_of(name)
        waiting = find_waiting(home, spec)
        if waiting is None:
            TOLD_OF_UPGRADE.forget(home)
        try:
            if waiting is not None and is_ready(home, waiting):
                _tell_of(home, spec, waiting, say, tell)
            turn = find_turn(home, spec, waiting, state_of, epoch_ms())
        except SessionizerError as error:  # the other streams go on
            say(f"{name}: {error}")
            continue
        if turn is not None:
            turns.append(turn)
            if turn.begins is not None:
                runs[name] = _run_of(spec, turn.run, turn.begins)
    chosen = choose_next(turns, Pace.from_environment())
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
    follows = what_follows(waiting, spec.upgrades, epoch_ms())
    say(f"{home.name}: {waiting.counted}: {follows}")
    if TOLD_OF_UPGRADE.is_news(home, waiting.digest):
        tell(Alert(stream=home.name, kind=AlertKind.UPGRADE_WAITS, reason=waiting.counts, what_to_do=follows))


def _run_of(spec: StreamSpec, run: str, opening: Opening) -> dict[str, Any]:
    command = Upgrade.make_for_window(spec.upgrades)
    given = {name: getattr(command, name) for name in command.options()}
    changed = {name: given[name] for name, option in command.options().items() if given[name] != option.default}
    return {
        "trigger_run_id": run,
        "conf": {"verb": Upgrade.name, "stream": spec.name, "why": opening.why, **changed},
    }
