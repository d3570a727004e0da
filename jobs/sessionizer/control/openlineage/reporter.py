"""A run as OpenLineage knows it, and the reporter of its states, which no failure of it reaches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from types import TracebackType
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlsplit
from uuid import UUID

from sessionizer.control.history.files import KEPT_MS, Mark, MarkKind, read_marks
from sessionizer.control.records.driver_records import Heartbeat
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import STREAMED
from sessionizer.home.roots import resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.redaction import redact_and_cut
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource, Source
from sessionizer.stream_spec.document.stream import StreamSpec

Say: TypeAlias = "Callable[[str], object]"
SETTINGS: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
"""Beginnings of the variables that tell the client where events go."""
RUNNING_EVERY_MS: Final = 300_000
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
    """A block that reports the run of ``make``, if OpenLineage is on. ``say`` gets a line for each event not sent."""

    def __init__(self, make: Callable[[], Run], say: Say) -> None:
        self._make, self._say = make, say
        self._run: Run | None = None
        self._outbox: _Outbox | None = None
        self._told_at = 0

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
        if self._run is None or 0 <= epoch_ms() - self._told_at < RUNNING_EVERY_MS:
            return
        self._told_at = epoch_ms()
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
                with suppress(Empty):
                    self._queue.get_nowait()
            else:
                return

    def close(self) -> None:
        """Wait some seconds for the events that are left."""
        self.put(None)
        self._thread.join(LAST_EVENT_S)
        if self._thread.is_alive():
            self._say(f"OpenLineage: the last events were not sent within {LAST_EVENT_S:.0f} seconds")

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


NAMESPACE: Final = "OPENLINEAGE_NAMESPACE"
PARENT: Final = "OPENLINEAGE_PARENT_ID"
"""Variable with the run that started this one, as ``namespace/job/run id``."""
CONTAINERS: Final = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes whose user part is a container and no credential."""
FOLDERS: Final = ("hdfs", "viewfs", "file")
"""Schemes of file systems. The name of a dataset in an object store begins without a slash."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset by OpenLineage's naming: ``kafka://host:port`` and a topic, ``s3://bucket`` and a path."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class RunName:
    """The identity of a run. ``minted``: epoch ms and a key from which the run's UUID is made. None: it has one."""

    namespace: str
    job: str
    minted: tuple[int, str] | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run with what its events say of it. ``lineage``: the life of the checkpoint, as a tag."""

    name: RunName
    is_streaming: bool
    parent: RunName | None = None
    lineage: str | None = None
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()


def driver_run(home: StreamHome, spec: StreamSpec, beat: Heartbeat) -> Run:
    """Return the run of the driver whose heartbeat is ``beat``."""
    tables, start = home.table_locations(spec.sink.path), _newest_start(home)
    if start is None or start.uid != beat.uid:  # its mark could not be written
        start = Mark(kind=MarkKind.START, at=beat.started_at, uid=beat.uid)
    return Run(
        name=_driver_name(home.name, start),
        is_streaming=True,
        parent=_parent(),
        lineage=beat.lineage,
        inputs=source_datasets(spec.source, home),
        outputs=tuple(dataset_at(tables[name]) for name in STREAMED),
    )


def command_run(home: StreamHome, verb: str, key: str, begun_at: int, lineage: str | None = None) -> Run:
    """Return the run of a command, the same after a kill. Its parent: what started it, or the newest driver."""
    start = _newest_start(home)
    parent = _parent() or (_driver_name(home.name, start) if start else None)
    name = RunName(_namespace(), f"{_job(home.name)}.{verb}", (begun_at, key))
    return Run(name=name, is_streaming=False, parent=parent, lineage=lineage)


def source_datasets(source: Source, home: StreamHome) -> tuple[Dataset, ...]:
    """Return the datasets of a source. A socket is none."""
    match source:
        case KafkaSource():
            broker = source.bootstrap_servers.split(",", maxsplit=1)[0].strip()
            return tuple(Dataset(f"kafka://{broker}", topic) for topic in source.topic.split(","))
        case FilesSource() | DeltaSource():
            return (dataset_at(resolve_place(source.path, home.platform)),)
        case _:
            return ()


def dataset_at(place: str) -> Dataset:
    """Return the dataset at a path or a URI, without a user, a password or a query of the URI."""
    parts = urlsplit(place)
    if not parts.scheme or (parts.scheme == "file" and not parts.netloc):
        return Dataset("file", parts.path if parts.scheme else place)
    user, _, host = parts.netloc.rpartition("@")
    if user and parts.scheme in CONTAINERS:
        host = f"{user.partition(':')[0]}@{host}"
    name = parts.path if parts.scheme in FOLDERS else parts.path.lstrip("/")
    return Dataset(f"{parts.scheme}://{host}", name.rstrip("/") or "/")


def _newest_start(home: StreamHome) -> Mark | None:
    """Return the mark of the newest driver's start. A command's own heartbeat does not tell of that driver."""
    now = epoch_ms()
    starts = [mark for mark in read_marks(home, now - KEPT_MS, now) if mark.kind is MarkKind.START]
    return max(starts, key=lambda mark: mark.at, default=None)


def _driver_name(stream: str, start: Mark) -> RunName:
    return RunName(_namespace(), _job(stream), (start.at, start.uid or ""))


def _job(stream: str) -> str:
    """Return the job of a stream. No task of its DAGs, which Airflow reports, has such a name."""
    return f"streams.{stream}"


def _namespace() -> str:
    return os.environ.get(NAMESPACE) or "default"


def _parent() -> RunName | None:
    job, _, run_id = os.environ.get(PARENT, "").rpartition("/")
    namespace, _, name = job.partition("/")
    try:
        return RunName(namespace, name, run_id=str(UUID(run_id))) if namespace and name else None
    except ValueError:
        return None
