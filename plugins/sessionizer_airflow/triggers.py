"""Trigger that watches a stream from the triggerer: light, asynchronous, by the control directory alone."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sessionizer.control.records.supervision_records import SupervisionRecord
from sessionizer.errors import SessionizerError
from sessionizer.fleet.finding import SEVERITY, StreamHealth
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting import AlertKind, health_now, notify_from_triggerer
from sessionizer_airflow.metrics import send_gauges, send_health
from sessionizer_airflow.project import Project
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.watch import HealthWatch, look_at

POLL_SECONDS = 2.0
HEALTH_EVERY_MS = 5_000
"""Ms between two judgements of a stream, unless a look shows a change. They read more files than a look."""
LEAST_LOOKS = 4
"""Looks before a trigger fires, 6 s in all. They are counted, because the clock may be set back.

A task must not be back in the queue before the scheduler has heard that it left its worker. Otherwise it passes for a
killed task, which costs a retry (issue 67287 of Airflow, open in 3.3.2).
"""


class StreamTrigger(BaseTrigger):
    """Trigger that fires when the stream needs a worker, or when the watch ends at ``watch_until`` (epoch ms).

    ``known`` is the state of the stream that the worker has logged. ``shown`` is the label of the worker's task. The
    trigger also fires when the label has to change. ``unwritten`` is the newest record of the supervision, if it could
    not be written. ``streams`` is the folder of specs.
    """

    def __init__(  # noqa: PLR0913  all that Airflow stores of it
        self,
        *,
        stream: str,
        platform_home: str,
        policy: dict[str, int],
        watch_until: int,
        streams: str | None = None,
        known: list[str] | None = None,
        shown: str | None = None,
        unwritten: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.stream = stream
        self.platform_home = platform_home
        self.policy = policy
        self.watch_until = watch_until
        self.streams = streams
        self.known = known
        self.shown = shown
        self.unwritten = unwritten
        self._health_due = 0
        self._label = shown
        self._judged: StreamHealth | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the import path and the arguments by which Airflow stores and remakes the trigger."""
        kept = ("stream", "platform_home", "policy", "watch_until", "streams", "known", "shown", "unwritten")
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in kept}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once, with ``watch_is_over``, the last ``line``, and all that a worker needs to watch on."""
        home, policy = StreamHome.of(Path(self.platform_home), self.stream), SupervisionPolicy(**self.policy)
        unwritten = SupervisionRecord.from_json(self.unwritten) if self.unwritten else None
        watch, known = HealthWatch(home), tuple(self.known or ())
        for looks in itertools.count(1):
            look = await asyncio.to_thread(look_at, home, policy, unwritten)
            if look.about != known:
                self.log.log(look.level, "%s: %s", self.stream, look.line)
                known, self._health_due = look.about, 0
            await self._judge_health()
            await self._report_health(watch)
            # Only a worker can change the label. If the control directory cannot be written, it is called when due.
            can_be_shown = self.shown is not None and self.unwritten is None
            call = look.call or (self._label != self.shown and can_be_shown)
            if looks >= LEAST_LOOKS and (call or epoch_ms() >= self.watch_until):
                kept = {"watch_until": self.watch_until, "unwritten": self.unwritten}
                yield TriggerEvent({"watch_is_over": not call, "line": look.line, **kept})  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _report_health(self, watch: HealthWatch) -> None:
        beat, alert = await asyncio.to_thread(watch.look, self._judged)
        if beat is not None:
            send_gauges(self.stream, beat)
        if alert is not None:
            level = logging.INFO if alert.kind is AlertKind.RECOVERED else logging.WARNING
            self.log.log(level, "%s", alert.message)
            await notify_from_triggerer(alert, self.log.warning)

    async def _judge_health(self) -> None:
        if 0 < self._health_due - epoch_ms() <= HEALTH_EVERY_MS:
            return
        self._health_due = epoch_ms() + HEALTH_EVERY_MS
        self._judged = health = await asyncio.to_thread(self._judge)
        if health is not None:
            send_health(self.stream, SEVERITY[health.word], epoch_ms() / 1000)
            self._label = health.label

    def _judge(self) -> StreamHealth | None:
        try:
            # a trigger of an earlier release has no folder
            streams = Path(self.streams) if self.streams else Project.from_environment().streams
            return health_now(Path(self.platform_home), streams, self.stream)
        except SessionizerError:
            return None
