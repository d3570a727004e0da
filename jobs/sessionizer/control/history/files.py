"""The files of the history: samples by the hour, which the driver writes, and a file for each mark of any process."""

import json
import secrets
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from sessionizer.control.history.sample import SAMPLE_MS, Sample, combine, condense, minute_of
from sessionizer.errors import DamagedFile, SessionizerError
from sessionizer.home.clock import DAY, HOUR, epoch_ms
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.json_record import JsonObject, JsonRecord, Moment, add_stamp
from sessionizer.home.names import check_identifier
from sessionizer.home.record_file import ControlFile, RecordFile, parse_object
from sessionizer.home.roots import ControlPath, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.redaction import redact_and_cut

TEXT_LIMIT: Final = 500


class MarkKind(StrEnum):
    """The event that a mark tells of."""

    START = "start"
    """A driver took the stream's lease."""
    STOP = "stop"
    """A driver ended as requested, or at the end of its input."""
    CRASH = "crash"
    """A driver ended by an error, or without a word."""
    SAVEPOINT = "savepoint"
    COMMAND = "command"
    """A command changed the stream's state: restore, rollback, rescale, switch, apply, seed, upgrade."""
    CANARY = "canary"
    """The verdict on a new lineage."""
    ALERT = "alert"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark(JsonRecord):
    """An event at ``at`` (epoch ms). ``what`` is its name in a word: a verb, a cause, a verdict, a kind of alert.

    ``text`` has the details, ``uid`` the driver, ``by`` the user who approved it. ``bytes``: size of a savepoint.
    """

    kind: MarkKind
    at: Moment = field(default_factory=epoch_ms)
    what: str = ""
    text: str = ""
    lineage: str | None = None
    batch_id: int | None = None
    uid: str | None = None
    savepoint: str | None = None
    bytes: int | None = None
    by: str | None = None


MARK_FILE: Final = ControlFile("history/mark.{}.json", Mark, key="mark")
"""Its key is such as ``1790382862000-3fa9c2``: epoch ms, and what tells it from others."""


def add_mark(home: StreamHome, mark: Mark) -> None:
    """Write ``mark``, without credentials. Never raises, because a lost mark must not stop the stream."""
    with suppress(SessionizerError, OSError):
        Store(home.history).make_folder()
        shown = replace(mark, text=redact_and_cut(mark.text, TEXT_LIMIT))
        MARK_FILE.of(home, f"{mark.at}-{secrets.token_hex(3)}").create(shown)


def count_restarts(marks: list[Mark]) -> int:
    """Count the starts that no stop and no command came before: Airflow or a user started the driver again."""
    ended_by, count = None, 0
    for mark in sorted(marks, key=lambda each: each.at):
        if mark.kind is MarkKind.START:
            count += ended_by in {MarkKind.CRASH, MarkKind.START}
        if mark.kind in {MarkKind.START, MarkKind.STOP, MarkKind.CRASH, MarkKind.COMMAND}:
            ended_by = mark.kind
    return count


KEPT_MS: Final = 7 * DAY
MARKS_READ: Final = 500
_FIELDS, _SAMPLES = "fields", "samples"


@dataclass(frozen=True, slots=True)
class History:
    """The samples and marks of a span of time, the oldest first."""

    samples: tuple[Sample, ...] = ()
    marks: tuple[Mark, ...] = ()


def hour_name(at_ms: int) -> str:
    """Return the name of the hour (UTC) that ``at_ms`` falls into, such as ``2026-11-26T01``."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H}"


def read_history(home: StreamHome, since_ms: int, until_ms: int, *, with_marks: bool = True) -> History:
    """Read samples (of ``KEPT_MS`` at most) and marks of a span (epoch ms). Raises OSError."""
    # not listed, because the page asks every few seconds, and a listing has a week of names
    begin = max(since_ms, until_ms - KEPT_MS - HOUR)
    hours = (hour * HOUR for hour in range(begin // HOUR, until_ms // HOUR + 1))
    read = (read_hour(home, hour_name(hour), since_ms if hour < since_ms else 0) for hour in hours)
    within = tuple(sample for samples in read for sample in samples if since_ms <= sample.at <= until_ms)
    return History(within, tuple(read_marks(home, since_ms, until_ms)) if with_marks else ())


def oldest_record(home: StreamHome) -> int | None:
    """Return the time of the oldest hour or mark (epoch ms), None without a history. Never raises."""
    with suppress(OSError):
        names = record_names(home.history, "*.json")
        return min((at for name in names if (at := _time_of(name)) is not None), default=None)
    return None


def read_marks(home: StreamHome, since_ms: int, until_ms: int, most: int = MARKS_READ) -> list[Mark]:
    """Read the marks of the span (epoch ms), the oldest first, at most the newest ``most``. Raises OSError."""
    names = record_names(home.history, "mark.*.json")
    within = [name for name in names if (at := _time_of_mark(name)) is not None and since_ms <= at <= until_ms]
    with suppress(SessionizerError):
        return list(_read_marks(home.history, tuple(within[-most:])))
    # one cannot be read, perhaps only now, so none is kept
    found = (RecordFile(home.history / name, Mark).read() for name in within[-most:])
    return sorted(filter(None, found), key=lambda mark: mark.at)


@lru_cache(maxsize=512)
def _read_marks(folder: ControlPath, names: tuple[str, ...]) -> tuple[Mark, ...]:
    return tuple(sorted((_read_mark(folder / name) for name in names), key=lambda mark: mark.at))


@lru_cache(maxsize=8_192)
def _read_mark(path: ControlPath) -> Mark:
    """Read a mark, once: no file of a mark changes, and a page asks for the same ones every few seconds."""
    mark = RecordFile(path, Mark).require()
    if mark is None:
        raise DamagedFile(uri_of(path), "it is gone")
    return mark


def read_hour(home: StreamHome, hour: str, since_ms: int = 0) -> tuple[Sample, ...]:
    """Read the samples of an hour from a minute on, the oldest first. One that cannot be parsed is passed over."""
    file = _hour_file(home, hour)
    with suppress(OSError):
        return _parse_hour(file, Store(file).read(), minute_of(since_ms))
    return ()


@lru_cache(maxsize=512)
def _parse_hour(file: ControlPath, content: bytes, since_ms: int) -> tuple[Sample, ...]:
    """Parse an hour, once: only the newest one changes, and a page asks for all of them every few seconds."""
    told = parse_object(file, content).value or {}
    names, rows = told.get(_FIELDS), told.get(_SAMPLES)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not isinstance(rows, list):
        return ()
    found, places = list[Sample](), [name.partition(".") for name in names]
    for row in rows:
        with suppress(ValueError, TypeError, LookupError):
            if row[names.index("at")] >= since_ms:
                found.append(Sample.from_json(_nest(zip(places, row, strict=True))))
    return tuple(found)


def write_hour(home: StreamHome, hour: str, samples: Iterable[Sample]) -> None:
    """Replace the samples of an hour, as rows below the names of their fields. Raises OSError."""
    told = [_flat(sample.to_json()) for sample in samples]
    names = sorted({name for each in told for name in each})
    rows = [[each.get(name) for name in names] for each in told]
    content = json.dumps(add_stamp({_FIELDS: names, _SAMPLES: rows}), separators=(",", ":"), allow_nan=False).encode()
    Store(_hour_file(home, hour)).replace(content, durable=False)


def _flat(told: JsonObject) -> JsonObject:
    """Return the fields with those of each mapping beside the others, such as ``phases.plan``: half the size."""
    flat: JsonObject = {}
    for name, value in told.items():
        flat |= {f"{name}.{part}": each for part, each in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _nest(flat: Iterable[tuple[tuple[str, str, str], Any]]) -> JsonObject:
    """Return the fields that ``_flat`` has made flat, from names parted at the dot. Earlier releases did not."""
    told: JsonObject = {}
    for (first, _, part), value in flat:
        if not part:
            told[first] = value
        elif value is not None:
            told.setdefault(first, {})[part] = value
    return told


def remove_old(home: StreamHome, now_ms: int) -> None:
    """Delete the files that are older than ``KEPT_MS``. Never raises."""
    oldest = now_ms - KEPT_MS
    with suppress(OSError):
        for name in record_names(home.history, "*.json"):
            at = _time_of(name)
            if at is not None and at < oldest - HOUR:
                with suppress(OSError):
                    Store(home.history / name).remove()


def _hour_file(home: StreamHome, hour: str) -> ControlPath:
    return home.history / f"{check_identifier('hour', hour)}.json"


def _time_of(name: str) -> int | None:
    if name.startswith("mark."):
        return _time_of_mark(name)
    with suppress(ValueError):
        moment = datetime.strptime(name.removesuffix(".json"), "%Y-%m-%dT%H").replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    return None


def _time_of_mark(name: str) -> int | None:
    kind, _, rest = name.partition(".")
    number = rest.partition("-")[0]
    return int(number) if kind == "mark" and number.isdecimal() else None


WRITTEN_EVERY_MS: Final = 5_000
"""A crash loses at most so much of the figures."""


class HistoryWriter:
    """The writer of the holder of the lease. Nothing raises: after a failure the next write comes when due."""

    def __init__(self, home: StreamHome) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._hour = ""
        self._samples: dict[int, Sample] = {}
        self._is_written = True
        self._written_at = 0

    def add(self, batch: Sample) -> None:
        """Add a committed batch to its minute. Write the hour if that is due."""
        with self._lock:
            self._begin_hour(batch.at)
            minute = minute_of(batch.at)
            self._samples[minute] = combine(self._samples.get(minute, Sample(at=minute)), batch, minute)
            self._is_written = False
            self._write(batch.at, unless_recent=True)

    def flush(self, now_ms: int, *, unless_recent: bool = False) -> None:
        """Write the newest figures. With ``unless_recent``, do nothing soon after the last write."""
        with self._lock:
            self._write(now_ms, unless_recent=unless_recent)

    def _begin_hour(self, at_ms: int) -> None:
        hour = hour_name(at_ms)
        if hour == self._hour:
            return
        self._write(at_ms, unless_recent=False)
        self._hour, self._samples = hour, {}
        with suppress(OSError):
            Store(self._home.history).make_folder()
        with suppress(OSError, ValueError):  # an earlier driver may have worked in this hour
            self._samples = {each.at: each for each in condense(read_hour(self._home, hour), SAMPLE_MS)}
        remove_old(self._home, at_ms)

    def _write(self, now_ms: int, *, unless_recent: bool) -> None:
        is_recent = 0 <= now_ms - self._written_at < WRITTEN_EVERY_MS
        if self._is_written or (unless_recent and is_recent):
            return
        self._written_at = now_ms
        with suppress(OSError, ValueError):
            # a clock that was set back comes to the same minutes again
            write_hour(self._home, self._hour, (self._samples[at] for at in sorted(self._samples)))
            self._is_written = True
