"""Reporter of a run's states. It sends from a thread of its own, and no failure of it reaches the run."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from sessionizer.home.clock import epoch_ms
from sessionizer.redaction import redact_and_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from sessionizer.control.openlineage.run import Run

Say: TypeAlias = "Callable[[str], object]"

SETTINGS: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
"""Beginnings of the variables that tell the client where events go."""
RUNNING_EVERY_MS: Final = 300_000
"""Ms between two RUNNING events of a driver."""
LAST_EVENT_S: Final = 10.0
"""Longest wait for the last event at the end of a run."""
MOST_WAITING: Final = 100
LIBRARY_MISSING: Final = (
    "OpenLineage is configured, but its client is not installed, so no event is sent. "
    'Install it: pip install "streaming-state[openlineage]"'
)


def is_openlineage_on(environment: Mapping[str, str]) -> bool:
    """Whether OpenLineage is configured, by a variable or a file that its client reads."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if any(value and name.startswith(SETTINGS) for name, value in environment.items()):
        return True
    return any((folder / "openlineage.yml").is_file() for folder in (Path.cwd(), Path.home() / ".openlineage"))


class RunReporter:
    """A block during which ``run`` is reported: START, RUNNING at times, then COMPLETE or FAIL.

    ``make`` returns the run. It is called only if OpenLineage is configured. ``say`` gets a line for each event that
    could not be sent.
    """

    def __init__(self, make: Callable[[], Run], say: Say) -> None:
        self._make, self._say = make, say
        self._run: Run | None = None
        self._outbox: _Outbox | None = None
        self._next_at = 0

    def __enter__(self) -> Self:
        try:
            if is_openlineage_on(os.environ):
                self._run, self._outbox = self._make(), _Outbox(self._say)
                self._send("START")
        except Exception as error:  # noqa: BLE001  lineage must never stop a run
            self._say(_not_sent(error))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outbox is not None:
            self._send("COMPLETE" if kind is None else "FAIL", "" if kind is None else f"{kind.__name__}: {error}")
            self._outbox.close()

    def note_progress(self, lineage: str | None) -> None:
        """Report that the run goes on in ``lineage``, every five minutes at most, however often it is called."""
        if self._run is None or epoch_ms() < self._next_at:
            return
        self._next_at = epoch_ms() + RUNNING_EVERY_MS
        self._run = replace(self._run, lineage=lineage)
        self._send("RUNNING")

    def _send(self, state: str, failure: str = "") -> None:
        if self._outbox is not None and self._run is not None:
            self._outbox.put((self._run, state, epoch_ms(), failure))


class _Outbox:
    """A queue of events and the thread that sends them, because a server may not answer for a minute."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._queue: Queue[tuple[Any, ...] | None] = Queue(MOST_WAITING)
        self._thread = Thread(target=self._send_all, daemon=True, name="openlineage")
        self._thread.start()

    def put(self, event: tuple[Run, str, int, str] | None) -> None:
        """Queue an event. If too many wait, the oldest one is dropped."""
        while True:
            try:
                self._queue.put_nowait(event)
            except Full:
                self._drop_oldest()
            else:
                return

    def close(self) -> None:
        """Wait some seconds for the events that are left."""
        self.put(None)
        self._thread.join(LAST_EVENT_S)
        if self._thread.is_alive():
            self._say(f"OpenLineage: the last events were not sent within {LAST_EVENT_S:.0f} seconds")

    def _drop_oldest(self) -> None:
        with suppress(Empty):
            self._queue.get_nowait()

    def _send_all(self) -> None:
        try:
            from sessionizer.control.openlineage.events import client, run_event  # noqa: PLC0415  an optional library

            sender = client()
        except ImportError:
            self._say(LIBRARY_MISSING)
            return
        except Exception as error:  # noqa: BLE001  lineage must never stop a run
            self._say(_not_sent(error))
            return
        while (event := self._queue.get()) is not None:
            try:
                sender.emit(run_event(*event))
            except Exception as error:  # noqa: BLE001  lineage must never stop a run
                self._say(_not_sent(error))


def _not_sent(error: Exception) -> str:
    said = redact_and_cut(f"{type(error).__name__}: {error}", 300)
    return f"OpenLineage: an event was not sent ({said})"
