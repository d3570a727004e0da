"""Trigger that watches a stream from the triggerer: light, asynchronous, by the control directory alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sessionizer.control.records.airflow_records import SupervisionRecord
from sessionizer.errors import SessionizerError
from sessionizer.fleet.health.verdict import SEVERITY
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting.notification import health_now, notify_from_triggerer
from sessionizer_airflow.metrics import send_gauges, send_health
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.health import Doctor
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.tell import level_of_alert
from sessionizer_airflow.supervision.watch import look_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sessionizer.fleet.health.verdict import StreamHealth

POLL_SECONDS = 2.0
HEALTH_EVERY_MS = 30_000
LEAST_WATCH_MS = 5_000
"""Ms before a trigger fires.

A task must not be back in the queue before the scheduler has heard that it left its worker.

Otherwise it passes for a killed task, which costs a retry (issue 67287 of Airflow, open in 3.3.2).
"""


class StreamTrigger(BaseTrigger):
    """Trigger that fires when the stream needs a worker, or when the watch ends at ``watch_until`` (epoch ms).

    ``known`` is the state of the stream that the worker has reported. The trigger also fires when the state differs.
    ``unwritten`` is the newest record of the supervision, if it could not be written.
    """

    def __init__(
        self,
        *,
        stream: str,
        platform_home: str,
        policy: dict[str, int],
        watch_until: int,
        known: list[str] | None = None,
        unwritten: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stream = stream
        self.platform_home = platform_home
        self.policy = policy
        self.watch_until = watch_until
        self.known = known
        self.unwritten = unwritten
        self._health_due = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the import path and the arguments by which Airflow stores and remakes the trigger."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "stream": self.stream,
                "platform_home": self.platform_home,
                "policy": self.policy,
                "watch_until": self.watch_until,
                "known": self.known,
                "unwritten": self.unwritten,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once, with ``watch_is_over``, the last ``line``, and all that a worker needs to watch on."""
        home, policy = self._home(), SupervisionPolicy(**self.policy)
        unwritten = SupervisionRecord.from_json(self.unwritten) if self.unwritten else None
        doctor, known, news = Doctor(home, policy, unwritten), tuple(self.known or ()), False
        earliest = epoch_ms() + LEAST_WATCH_MS
        while True:
            news = await self._check_up(doctor) or news
            look = await asyncio.to_thread(look_at, home, policy, unwritten)
            if look.about != known:
                self.log.log(look.level, "%s: %s", self.stream, look.line)
                news, known = True, look.about
            call = look.call or (news and self._can_be_shown)
            if epoch_ms() >= max(earliest, 0 if call else self.watch_until):
                yield self._event(look.line, watch_is_over=not call)
                return
            await asyncio.sleep(POLL_SECONDS)

    def _event(self, line: str, *, watch_is_over: bool) -> TriggerEvent:
        kept = {"watch_until": self.watch_until, "unwritten": self.unwritten}
        return TriggerEvent({"watch_is_over": watch_is_over, "line": line, **kept})  # type: ignore[no-untyped-call]

    @property
    def _can_be_shown(self) -> bool:
        """Whether a worker may be called to show news in the list of tasks, which the triggerer cannot change.

        If the control directory cannot be written, a worker is called only when that is due for another try.
        """
        return self.known is not None and self.unwritten is None

    async def _check_up(self, doctor: Doctor) -> bool:
        """Send the heartbeat to metrics and a change of health to users.

        Return whether the task's label must change.
        """
        found = await asyncio.to_thread(doctor.look)
        await self._send_health()
        if found.beat is not None:
            send_gauges(self.stream, found.beat)
        if found.alert is not None:
            self.log.log(level_of_alert(found.alert), "%s", found.alert.message)
            await notify_from_triggerer(found.alert, self.log.warning)
        return found.alert is not None and found.on_record

    async def _send_health(self) -> None:
        """Send the stream's word to metrics. It takes more files than a look at the driver, so it comes less often."""
        if epoch_ms() < self._health_due:
            return
        self._health_due = epoch_ms() + HEALTH_EVERY_MS
        health = await asyncio.to_thread(self._judge)
        if health is not None:
            send_health(self.stream, SEVERITY[health.word], epoch_ms() / 1000)

    def _judge(self) -> StreamHealth | None:
        try:
            return health_now(Project.from_environment(), self.stream)
        except SessionizerError:
            return None

    def _home(self) -> StreamHome:
        return StreamHome.of(Path(self.platform_home), self.stream)
