"""Alerts to users about a stream, and the notifier of an installation, which the environment of its processes names."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from airflow.sdk import BaseNotifier
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import BaseDeadlineReference, DeadlineAlert
from asgiref.sync import sync_to_async

from sessionizer.control.history.files import Mark, MarkKind, add_mark
from sessionizer.control.records.driver_records import Heartbeat
from sessionizer.control.records.supervision_records import DesiredState
from sessionizer.control.status.driver_status import DriverStatus, read_status
from sessionizer.control.timeouts import read_configured_timeouts
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.fleet.finding import StreamHealth
from sessionizer.fleet.streams import find_view
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store
from sessionizer.home.names import Verb, dag_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.redaction import redact
from sessionizer.stream_spec.document.names import Verbatim
from sessionizer_airflow.project import Project

log = logging.getLogger(__name__)


class AlertKind(StrEnum):
    """The event that an alert reports about a stream."""

    REPLACED = "replaced"
    """The driver ended or hung. The supervisor starts another."""
    GAVE_UP = "gave_up"
    """The supervisor starts no driver until a user has mended the cause."""
    ROLLED_BACK = "rolled_back"
    """A new lineage never made a batch. The next driver returns to the lineage before, as a user approved."""
    WAITING = "waiting"
    """Something around the stream has kept it down for a while.

    The supervisor starts a driver as soon as that is over.
    """
    STALE = "stale"
    """The stream should run, and has shown no sign of work for too long."""
    LAGGING = "lagging"
    """The stream works, but too far behind the events."""
    STRAGGLER = "straggler"
    """A key group, key or partition has held up the batches for five minutes."""
    DEGRADED = "degraded"
    """The stream works, but not as it should: its word says so, and no other alert does."""
    DOWN = "down"
    """The stream cannot go on, and no other alert says so."""
    RECOVERED = "recovered"
    """The stream has no such problem any more, and does not wait."""
    ORPHANED = "orphaned"
    """The stream's driver runs, but no spec describes the stream."""
    UNWATCHED = "unwatched"
    """The run that watches the stream is overdue, or no supervisor acts on its dead driver."""
    UPGRADE_WAITS = "upgrade_waits"
    """The spec was edited or a release was installed, and the stream does not run by it yet."""
    WANTS_APPROVAL = "wants_approval"
    """A plan for the stream waits until a user approves or rejects it."""
    OPERATION_FAILED = "operation_failed"
    """An approved operation on the stream was not completed."""
    TEST = "test"
    """A user tests whether alerts arrive. Nothing has to be done."""
    OPERATION_STUCK = "operation_stuck"
    """A command holds the stream, but no process runs that command. No driver starts before it is over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """News of ``stream``. ``what_to_do`` is empty if nothing has to be done."""

    stream: str
    kind: AlertKind
    reason: str
    what_to_do: str = ""
    lineage: str | None = None
    batch_id: int | None = None
    health: str | None = None
    """The stream in one word at the time of the alert, None if it is not known."""

    @classmethod
    def about(cls, kind: AlertKind, stream: str, told: tuple[str, str], seen: Heartbeat | DriverStatus | None) -> Self:
        """Make an alert from a reason and a remedy (``told``), at the batch of the driver that was ``seen``."""
        reason, what_to_do = told
        lineage, batch_id = (seen.lineage, seen.batch_id) if seen else (None, None)
        return cls(stream=stream, kind=kind, reason=reason, what_to_do=what_to_do, lineage=lineage, batch_id=batch_id)

    @property
    def message(self) -> str:
        """The whole alert in one line, without credentials."""
        batch = "" if self.batch_id is None else f" (batch {self.batch_id})"
        remedy = f". What to do: {self.what_to_do}" if self.what_to_do else ""
        return redact(f"{self.stream} {self.kind.replace('_', ' ')}{batch}: {self.reason}{remedy}")

    def context(self) -> dict[str, Any]:
        """Return the names that a notifier's templates may use: ``{{ stream }}``, ``{{ message }}`` and so on."""
        shown = {"reason": redact(self.reason), "what_to_do": redact(self.what_to_do), "message": self.message}
        return {**asdict(self), "kind": str(self.kind), "health": self.health or "unknown", **shown}


CLASS: Final = "SESSIONIZER_NOTIFIER"
ARGUMENTS: Final = "SESSIONIZER_NOTIFIER_ARGUMENTS"
PATIENCE_SECONDS: Final = 30.0
"""Timeout of a notification, because a service that does not answer must not keep the triggerer from watching."""


def make_notifier(environment: Mapping[str, str] = os.environ) -> BaseNotifier | None:
    """Make a new notifier, as the environment says. None if it names none. Raises InvalidSpec if it cannot be made."""
    path = environment.get(CLASS)
    if not path:
        return None
    try:
        arguments = json.loads(environment.get(ARGUMENTS, "{}"))
    except ValueError as error:
        raise InvalidSpec(ARGUMENTS, Verbatim("(hidden)"), f"a JSON object ({error})") from error
    if not isinstance(arguments, dict):
        raise InvalidSpec(ARGUMENTS, Verbatim("(hidden)"), "a JSON object")
    module, _, name = path.rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSpec(CLASS, path, f"the import path of a notifier ({error})") from error
    if not (isinstance(kind, type) and issubclass(kind, BaseNotifier)):
        raise InvalidSpec(CLASS, path, "the import path of a subclass of airflow.sdk.BaseNotifier")
    return kind(**arguments)


def notify(alert: Alert, say: Callable[[str], None]) -> None:
    """Send the alert from a worker. Never raises, because a failed notification must not stop the stream."""
    try:
        alert = note_alert(alert)
        if (notifier := make_notifier()) is not None:
            _send(notifier, alert)
    except Exception as error:  # noqa: BLE001 - notifiers are other people's code
        say(redact(f"no notification could be sent: {type(error).__name__}: {error}"))


def send_test(alert: Alert) -> str | None:
    """Send the alert from a worker. Return the import path of the notifier, None without one. Raises what it raises."""
    notifier = make_notifier()
    if notifier is None:
        return None
    _send(notifier, note_alert(alert))
    return os.environ[CLASS]


async def notify_from_triggerer(alert: Alert, say: Callable[[str], None]) -> None:
    """Send the alert from the triggerer, without delaying its other triggers. Never raises."""
    try:
        alert = await asyncio.to_thread(note_alert, alert)
        if (notifier := make_notifier()) is not None:
            await asyncio.wait_for(_send_async(notifier, alert), PATIENCE_SECONDS)
    except Exception as error:  # noqa: BLE001 - as above
        say(redact(f"no notification could be sent: {type(error).__name__}: {error}"))


def _send(notifier: BaseNotifier, alert: Alert) -> None:
    if _is_asynchronous(notifier):
        asyncio.run(_await(notifier, alert))
    else:
        notifier(alert.context())


async def _send_async(notifier: BaseNotifier, alert: Alert) -> None:
    if _is_asynchronous(notifier):
        await _await(notifier, alert)
    else:
        # Airflow lets a trigger look up connections only in this thread.
        await sync_to_async(notifier)(alert.context())


async def _await(notifier: BaseNotifier, alert: Alert) -> None:
    notifier.context = alert.context()  # type: ignore[assignment]  # ours has no task
    await notifier


def _is_asynchronous(notifier: BaseNotifier) -> bool:
    """Whether the notifier can only be awaited. Many notifiers can be sent either way."""
    return type(notifier).notify is BaseNotifier.notify


def note_alert(alert: Alert) -> Alert:
    """Add the alert to the history of its stream, and return it with the stream's word. Never raises."""
    try:
        project = Project.from_environment()
        home = project.home_of(alert.stream)
        has_home = Store(home.control).exists()
    except (SessionizerError, OSError):
        return alert
    text = f"{alert.reason}. What to do: {alert.what_to_do}" if alert.what_to_do else alert.reason
    told = Mark(kind=MarkKind.ALERT, what=str(alert.kind), text=text, lineage=alert.lineage, batch_id=alert.batch_id)
    if has_home:  # a list of upgrades is of the platform, which must not pass for a stream
        add_mark(home, told)
    health = health_now(project.home, project.streams, alert.stream)
    return alert if health is None else replace(alert, health=str(health.word))


def health_now(home: Path, streams: Path, stream: str) -> StreamHealth | None:
    """Return the health of the stream now, by its spec in the folder ``streams``. None if unknown. Never raises."""
    try:
        return find_view(home, streams, stream).health
    except (SessionizerError, OSError):
        return None
    except Exception as error:  # noqa: BLE001  a label, metric or word of an alert must not end the watch of a stream
        log.warning("the health of %s is unknown: %s: %s", stream, type(error).__name__, error)
        return None


class WatchBegins(BaseDeadlineReference):
    """The moment at which a run is made, because Airflow evaluates the reference then.

    The logical date would not do. For ``@continuous`` it is the start of the run before, and for the first run the
    DAG's start date. With ``DAGRUN_QUEUED_AT`` Airflow 3.3.2 cannot clear a task (the API answers 500: it takes the
    stored interval for a number of seconds).
    """

    def _evaluate_with(self, **_known: object) -> datetime:
        return datetime.now(UTC)


def watch_deadline(stream: str, platform_home: Path, limit: timedelta) -> DeadlineAlert:
    """Alert users of a run that outlives ``limit``, by a callback in the executor: the triggerer may be broken."""
    facts = {"stream": stream, "platform_home": str(platform_home), "limit_seconds": limit.total_seconds()}
    return DeadlineAlert(
        name=f"{stream} is watched",
        reference=WatchBegins(),
        interval=limit,
        callback=SyncCallback(tell_overdue_watch, kwargs=facts),
    )


def tell_overdue_watch(stream: str, platform_home: str, limit_seconds: float, context: dict[str, Any]) -> None:
    """Alert users of an overdue watch. Airflow calls this when the deadline has passed."""
    made_at = context["deadline"]["deadline_time"] - timedelta(seconds=limit_seconds)
    queued_at = context["dag_run"].get("queued_at")
    # A run that is queued later was cleared: its watch begins anew, but its deadline does not move.
    if queued_at is not None and datetime.fromisoformat(str(queued_at)) > made_at + timedelta(seconds=10):
        return
    seen = read_status(StreamHome.of(Path(platform_home), stream), epoch_ms(), read_configured_timeouts())
    alert = alert_on_overdue_watch(stream, context["dag_run"], seen)
    if alert is not None:
        log.error("%s", alert.message)
        notify(alert, log.warning)


def alert_on_overdue_watch(stream: str, run: dict[str, Any], seen: DriverStatus) -> Alert | None:
    """Make the alert. Return None if the run has ended meanwhile, or the desired state of the stream is not RUNNING."""
    if run.get("state") not in {"queued", "running"} or seen.desired.state is not DesiredState.RUNNING:
        return None
    reason = f"run {run.get('dag_run_id')} should have ended, and the stream itself is {seen.state}"
    what_to_do = (
        f"unpause {dag_id(stream, Verb.SUPERVISE)} if it is paused, and check that Airflow's triggerer and "
        f"scheduler run (`sessionizer status {stream}` needs neither)"
    )
    return Alert.about(AlertKind.UNWATCHED, stream, (reason, what_to_do), seen.heartbeat)
