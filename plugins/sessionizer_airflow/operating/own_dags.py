"""Building blocks of a user's own DAG: a savepoint, a change, the upgrades of many streams, and a wait for a word."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import BaseOperator, BaseSensorOperator, Context
from airflow.sdk.exceptions import AirflowException, AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from sessionizer.control.records.operation_record import pending_operation
from sessionizer.deployment.waiting import UpgradeState, find_waiting, open_by_list
from sessionizer.errors import InvalidSpec, SessionizerError, TerminalError
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.waves import state_after_run
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import check_name
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.stream_spec.spec_folder import find_stream, survey_streams
from sessionizer_airflow.alerting import health_now
from sessionizer_airflow.errors import PersonNeeded, say_what_to_do
from sessionizer_airflow.operating.approval import list_upgrades
from sessionizer_airflow.operating.request import Request, form_fields, id_of_run
from sessionizer_airflow.operating.results import CARRY_OUT, DONE
from sessionizer_airflow.operators.batch_jobs import SparkBatchJob
from sessionizer_airflow.operators.scheduled import LABEL
from sessionizer_airflow.project import PLATFORM, Project

POLL_SECONDS: Final = 10
NOTHING_WAITS: Final = "nothing waits"
LISTED: Final = "listed"
"""XCom key of the streams in the list that a user is asked about."""


def _say_remedy_last(task: BaseOperator) -> None:
    """Add the callback that all tasks of the platform have to the callbacks of the user's own DAG."""
    task.on_failure_callback = [*(task.on_failure_callback or ()), say_what_to_do]


def _asked_by(context: Context) -> str:
    return f"run {context['run_id']} of the DAG {context['ti'].dag_id}"


class SavepointStream(SparkBatchJob):
    """Job that makes a savepoint of ``stream`` while it runs, and returns the id. Each try makes the same savepoint."""

    template_fields = (*SparkSubmitOperator.template_fields, "stream", "why")

    def __init__(self, *, stream: str, why: str = "", native: bool = False, **kwargs: Any) -> None:
        project = Project.from_environment()
        super().__init__(project=project, name="savepoint", **{"map_index_template": LABEL, **kwargs})
        self.stream, self.why, self.native = stream, why, native
        _say_remedy_last(self)

    def execute(self, context: Context) -> str:  # type: ignore[override]  # the other jobs return nothing
        """Run the job."""
        task = context["ti"]
        run = f"{task.dag_id} {context['run_id']} {task.task_id} {task.map_index}"
        savepoint = id_of_run(run, context["dag_run"].run_after)
        why = self.why or _asked_by(context)
        argv = self.project.savepoint_argv(self.stream, savepoint, why=why, native=self.native)
        self.name, self.application_args = f"{self.stream}.savepoint", list(argv)
        super().execute(context)
        return savepoint


class PlatformRun(TriggerDagRunOperator):
    """Task that starts a run of a DAG of the platform, and waits for its end without a worker."""

    def __init__(self, *, verb: str, platform: str, conf: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(
            trigger_dag_id=f"{platform}.{verb}",
            conf=conf,
            logical_date=None,
            wait_for_completion=True,
            deferrable=True,
            poke_interval=POLL_SECONDS,
            **kwargs,
        )
        self.project = Project.from_environment()
        _say_remedy_last(self)

    def execute_complete(self, context: Context, event: tuple[str, dict[str, Any]]) -> Any:  # noqa: ANN401
        """Return what came of the run. Raises PersonNeeded if it failed."""
        try:
            super().execute_complete(context, event)
        except AirflowException:
            reason = f"run {self.trigger_run_id} of {self.trigger_dag_id} failed"
            raise PersonNeeded(reason, "do what the log of its failed task says, then clear this task") from None
        return self.conclude(context)

    def conclude(self, context: Context) -> Any:  # noqa: ANN401  the result of the task
        """Return what came of the run, which was successful."""
        raise NotImplementedError


class ChangeStream(PlatformRun):
    """Task that has ``sessionizer.operate`` plan, ask a user, and carry out the command ``verb`` on ``stream``.

    ``options``: fields of the form, which are the options of the command. A rejected plan skips the task, and so what
    follows it. An upgrade without ``options`` is over at once if nothing waits.

    Raises InvalidSpec: there is no such command, or it has no such option.
    """

    def __init__(
        self,
        *,
        stream: str,
        verb: str = Upgrade.name,
        options: Mapping[str, Any] | None = None,
        why: str = "",
        platform: str = PLATFORM,
        **kwargs: Any,
    ) -> None:
        known = [name for name, (_, verbs) in form_fields().items() if verb in verbs]
        if verb not in COMMANDS:
            raise InvalidSpec("verb", verb, f"one of {', '.join(COMMANDS)}")
        for name in sorted({*(options or {})} - {*known}):
            raise InvalidSpec("options", name, f"one of {', '.join(known)}")
        conf = {"verb": verb, "stream": stream, "why": why, **(options or {})}
        label = f"{verb} {{{{ task.conf['stream'] }}}}"
        super().__init__(verb="operate", platform=platform, conf=conf, **{"map_index_template": label, **kwargs})

    def execute(self, context: Context) -> str | None:
        """Check the form, then start the run."""
        form = dict(self.conf or {})
        asked = self.conf = {**form, "why": form["why"] or _asked_by(context)}
        try:
            request = Request.parse_form(asked)
            spec = find_stream(self.project.streams, request.stream)
        except TerminalError as error:
            raise PersonNeeded.wrap(error) from None
        is_plain_upgrade = request.operation == Upgrade.name and set(asked) == {"verb", "stream", "why"}
        if is_plain_upgrade and find_waiting(self.project.home_of(request.stream), spec) is None:
            self.log.info("%s: no upgrade waits", request.stream)
            return NOTHING_WAITS
        super().execute(context)
        return None  # never reached, because Airflow starts the run by an exception

    def conclude(self, context: Context) -> str:
        """Return that it is done. Skip what follows if the plan was rejected."""
        dag, run = self.trigger_dag_id, self.trigger_run_id
        if context["ti"].xcom_pull(task_ids=CARRY_OUT, dag_id=dag, run_id=run, map_indexes=-1) != DONE:
            raise AirflowSkipException(f"a user rejected the plan of run {run} of {dag}")
        return DONE


class UpgradeStreams(PlatformRun):
    """Task that has a user approve the waiting upgrades of ``streams`` in one list, and waits until all are done.

    ``streams``: all streams if there are none. The upgrades begin in waves, as those of ``sessionizer.upgrade_all``. A
    rejected list skips the task, and so what follows it.
    """

    template_fields = (*TriggerDagRunOperator.template_fields, "streams")

    def __init__(self, *, streams: Sequence[str] = (), platform: str = PLATFORM, **kwargs: Any) -> None:
        super().__init__(verb="upgrade_all", platform=platform, conf={}, **kwargs)
        self.streams = streams

    def execute(self, context: Context) -> str | None:
        """Start the run, unless nothing waits that fits in the list."""
        try:
            for name in self.streams:
                find_stream(self.project.streams, check_name("stream", name))
        except TerminalError as error:
            raise PersonNeeded.wrap(error) from None
        listed = [each["stream"] for each in self._list() if each["fits"]]
        if not listed:
            return self.finish(context, {})
        context["ti"].xcom_push(LISTED, listed)
        self.conf = {"streams": listed}
        super().execute(context)
        return None  # never reached, because Airflow starts the run by an exception

    def conclude(self, context: Context) -> str:
        """Wait for the upgrades, unless the list was rejected."""
        task = context["ti"]
        listed = task.xcom_pull(task_ids=self.task_id, key=LISTED, map_indexes=task.map_index)
        specs = survey_streams(self.project.streams).specs
        waiting = [find_waiting(self.project.home_of(name), specs[name]) for name in listed if name in specs]
        if all(each is not None and each.approval is None for each in waiting):
            raise AirflowSkipException(f"a user rejected the list of run {self.trigger_run_id}")
        self.defer(trigger=UpgradesDone(streams=listed), method_name="finish")

    def finish(self, context: Context, event: dict[str, str]) -> str:  # noqa: ARG002 - the interface
        """Return that all are done. Raises PersonNeeded for streams of which one waits or failed."""
        problems = event | {each["stream"]: f"an upgrade waits: {each['counts']}" for each in self._list()}
        if problems:
            reason = "; ".join(f"{stream}: {problem}" for stream, problem in problems.items())
            raise PersonNeeded(reason, "run `sessionizer upgrade STREAM` for each, then clear this task")
        return DONE

    def _list(self) -> list[dict[str, Any]]:
        return list_upgrades(self.project, self.streams, self.log.info)


class StreamSensor(BaseSensorOperator):
    """Sensor that waits without a worker until the health of ``stream`` is one of ``words``, which it returns."""

    template_fields = ("stream",)

    def __init__(self, *, stream: str, words: Collection[str] = (HealthWord.HEALTHY,), **kwargs: Any) -> None:
        super().__init__(**{"map_index_template": LABEL, **kwargs})
        for word in words:
            if word not in [*HealthWord]:
                raise InvalidSpec("words", word, f"some of {', '.join(HealthWord)}")
        self.stream, self.words = stream, [str(word) for word in words]
        _say_remedy_last(self)

    def execute(self, context: Context) -> str:  # noqa: ARG002 - the interface
        """Return the word at once, or wait for it."""
        try:
            find_stream(Project.from_environment().streams, check_name("stream", self.stream))
        except TerminalError as error:
            raise PersonNeeded.wrap(error) from None
        trigger = WordReached(stream=self.stream, words=self.words)
        found: str | None = trigger.look()
        if found is None:
            self.defer(trigger=trigger, method_name="finish", timeout=timedelta(seconds=self.timeout))
        return found

    def finish(self, context: Context, event: str) -> str:  # noqa: ARG002 - the interface
        """Return the word."""
        return event


class LookTrigger(BaseTrigger):
    """Trigger that looks every few seconds, and fires with what it finds. ``arguments``: those of the look."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.arguments = arguments

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the import path and the arguments by which Airflow stores and remakes the trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments

    def look(self) -> Any:  # noqa: ANN401  the event
        """Return the event, None as long as there is none."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once."""
        found = None
        while found is None:
            # Also before the first look: the scheduler must have heard that the task left its worker.
            await asyncio.sleep(POLL_SECONDS)
            found = await asyncio.to_thread(self.look)
        yield TriggerEvent(found)  # type: ignore[no-untyped-call]


class WordReached(LookTrigger):
    """Trigger that fires with the word when the health of ``stream`` is one of ``words``."""

    def look(self) -> str | None:
        """Return the word if it is one of them."""
        project = Project.from_environment()
        health = health_now(project.home, project.streams, self.arguments["stream"])
        return str(health.word) if health is not None and health.word in self.arguments["words"] else None


class UpgradesDone(LookTrigger):
    """Trigger that fires when the upgrades of ``streams`` are done, or can begin no more, with those that failed."""

    def look(self) -> dict[str, str] | None:
        """Return each stream whose upgrade failed, None while one may begin or runs."""
        project, now = Project.from_environment(), epoch_ms()
        failed = {}
        for name, spec in survey_streams(project.streams).specs.items():
            if name not in self.arguments["streams"]:
                continue
            try:
                home = project.home_of(name)
                waiting = find_waiting(home, spec)
                is_open = waiting is not None and open_by_list(now, waiting.approval) is not None
                state = None if waiting is not None else state_after_run(home, now, still_waits=False)
                if is_open or state is UpgradeState.RUNS or pending_operation(home) is not None:
                    return None
            except SessionizerError as error:  # the store may answer at the next look
                self.log.warning("%s: %s", name, error)
                return None
            if state is UpgradeState.FAILED:
                failed[name] = "it does not work since its upgrade"
        return failed
