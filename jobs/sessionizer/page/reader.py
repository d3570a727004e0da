"""The JSON documents of the page: a row for each stream, and for one stream its document and its figures.

The functions are pure. ``PageReader`` reads what they need from the platform, once for all readers of a moment.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from sessionizer.control.history.files import (
    KEPT_MS,
    History,
    Mark,
    MarkKind,
    count_restarts,
    oldest_record,
    read_history,
    read_marks,
)
from sessionizer.control.history.sample import PHASES, SAMPLE_MS, Sample, bucket_ms, condense, minute_of
from sessionizer.control.records.driver_records import ON_PAGE, Heartbeat, Phase, PositionsRecord
from sessionizer.control.records.operation_record import OperationRecord, read_operations
from sessionizer.control.records.supervision_records import PauseRecord
from sessionizer.control.status.driver_status import State
from sessionizer.core.definition.outcome import CloseReason
from sessionizer.deployment.waiting import NextUpgrades, Pace, UpgradeState, choose_next
from sessionizer.errors import SessionizerError, UnknownStream
from sessionizer.fleet.finding import HealthWord
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import all_streams, find_view, read_records
from sessionizer.fleet.waves import Turn, find_turn
from sessionizer.home.clock import DAY, HOUR, MINUTE, epoch_ms
from sessionizer.home.control_store import CachedValue
from sessionizer.home.data_files import list_entries
from sessionizer.home.names import is_name
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.active import locate_data
from sessionizer.lineage.fingerprint import present_versions
from sessionizer.state.lineages.origin import BEFORE_THE_FIRST, Origin, origins_of, path_to
from sessionizer.state.savepoints.manifest import read_manifest
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import load_stream

OPERATIONS: Final = 20
"""Past operations that are listed, the newest."""
POINTS: Final = 360
"""Points of a chart, about."""
LEAST_SPAN_MS: Final = 10 * MINUTE
RATES: Final = 14
"""Minutes of the small chart in the table of the fleet."""


def stream_row(view: StreamView, marks: Sequence[Mark], now: int) -> dict[str, Any]:
    """Return the row of a stream in the table of the fleet. ``marks`` are those of the last 7 days."""
    seen = view.driver
    beat = seen.heartbeat if seen else None
    today = [mark for mark in marks if mark.at >= now - DAY]
    saved_at = max((mark.at for mark in marks if mark.kind is MarkKind.SAVEPOINT), default=None)
    changes = [mark for mark in marks if mark.kind is MarkKind.COMMAND]
    is_working = seen is not None and seen.state is State.RUNNING
    return {
        "stream": view.name,
        "health": {name: value for name, value in view.health.to_json().items() if name != "findings"},
        "state": view.state,
        "actions": [*map(str, view.actions)],
        "specified": view.specified,
        "desired": seen.desired.to_json() if seen else None,
        "restarts": count_restarts(today),
        "rates": _rates(view.samples, now),
        "catch_up_ms": estimate_catch_up(view.samples),
        "trigger_ms": view.spec.trigger_interval_ms if view.spec else None,
        "saved_at": saved_at,
        "save_due_at": saved_at + view.save_every_ms if saved_at and view.save_every_ms else None,
        "changed": changes[-1].to_json() if changes else None,
        "live": seen is not None and seen.state.is_live,
        **(_NO_BEAT if beat is None else _figures(beat, is_working=is_working)),
    }


def _figures(beat: Heartbeat, *, is_working: bool) -> dict[str, Any]:
    return {
        **{name: getattr(beat, field) for name, field in ON_PAGE.items()},
        # the figures of the last batch stay in the heartbeat, but an idle stream handles no rows
        "rate": beat.rows_per_second if is_working else 0,
        "lag_ms": beat.watermark_lag_ms if is_working and not beat.is_drained else None,
        "watermark_ms": None if beat.is_drained else beat.watermark_ms,
        # an address of another kind could be a script
        "spark_ui": beat.spark_ui if (beat.spark_ui or "").startswith(("http://", "https://")) else None,
    }


def _rates(samples: Sequence[Sample], now: int) -> list[float]:
    """Return the events per second of each of the last minutes, the oldest first. Empty if none has any."""
    rates = {sample.at: round(sample.rate, 1) for sample in samples}
    last = minute_of(now) - SAMPLE_MS
    if last not in rates:  # the driver writes a minute some seconds after its end, which is no minute without events
        last -= SAMPLE_MS
    found = [rates.get(last - ago * SAMPLE_MS, 0) for ago in reversed(range(RATES))]
    return found if any(found) else []


def describe_turn(turn: Turn, view: StreamView, chosen: NextUpgrades, failed: int, pace: Pace) -> dict[str, Any]:
    """Return where an upgrade stands that takes turns with others, and why. It names no other stream.

    ``chosen``: the upgrades that begin next. ``failed``: number of those that failed.
    """
    why = ""
    if turn.state is UpgradeState.WAITS and turn.stream in chosen.begin:
        why = "begins within five minutes"
    elif turn.state is UpgradeState.WAITS:
        mended = "begins once a failed upgrade is mended and its run cleared"
        why = mended if failed >= pace.stop_after else "waits for its turn"
    elif turn.state is UpgradeState.RUNS:
        asks = "a user is asked" if turn.asks else "until its stream works"
        why = f"has reached: {view.pending.reached.replace('_', ' ')}" if view.pending else asks
    elif turn.state is UpgradeState.FAILED:
        is_bad = [each.what for each in view.health.findings if each.word in {HealthWord.DEGRADED, HealthWord.DOWN}]
        told = [view.pending.failure] if view.pending and view.pending.failure else is_bad
        why = next(iter(told), "its run failed, or it was rolled back")
    return {"state": turn.state, "wave": turn.wave, "why": why, "run": turn.run, "until": turn.until}


def estimate_catch_up(samples: Sequence[Sample]) -> int | None:
    """Return the ms after which the source is read to its end, if it goes on as in ``samples``.

    None if no more is behind than a minute brings, or what is behind does not shrink, or is not known.
    """
    known = [(sample.at, sample.source_lag) for sample in samples if sample.source_lag is not None]
    third = len(known) // 3  # of which the means are compared, because a single figure is that of a moment
    if not third:
        return None
    begin, before = (sum(figures) / third for figures in zip(*known[:third], strict=True))
    end, behind = (sum(figures) / third for figures in zip(*known[-third:], strict=True))
    now = known[-1][1]
    return int(now * (end - begin) / (before - behind)) if samples[-1].rows < now and behind < before else None


_NO_BEAT: Final = dict.fromkeys(_figures(Heartbeat("", 0, 0, Phase.STARTING), is_working=False))
"""The figures of a stream without a heartbeat."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """The past of a stream: the ``history`` that is shown, all ``marks`` of 7 days, and the ``lineages``.

    ``savepoints``: those that are still there, as marks, the oldest first. ``operations``: the newest last.
    ``begun_at``: the oldest figure or mark (epoch ms), None without any.
    """

    history: History
    marks: Sequence[Mark]
    savepoints: Sequence[Mark]
    lineages: Mapping[str, Origin | None]
    operations: Sequence[OperationRecord] = ()
    begun_at: int | None = None


def stream_document(view: StreamView, past: Past, now: int, span: int) -> dict[str, Any]:
    """Return all about a stream: its row, findings, notes, history of ``span`` ms, marks and lineages.

    ``from`` is the begin of the charts: that of the stream, if it is younger than ``span``.
    """
    begun_at = now - span if past.begun_at is None else min(past.begun_at, now - LEAST_SPAN_MS)
    begin = max(now - span, begun_at)
    every = bucket_ms(now - begin, POINTS)
    return {
        "at": now,
        "every": every,
        "span": span,
        "from": begin,
        "row": stream_row(view, past.marks, now),
        "findings": [finding.to_json() for finding in view.health.findings],
        "lines": view.notes,
        "excluded": list(view.excluded_ranges),
        "changes": [str(change.field) for change in view.changes],
        "differences": [each.to_json() for each in view.waiting.differences] if view.waiting else [],
        "history": table_of(condense(past.history.samples, every)),
        "marks": [mark.to_json() for mark in past.history.marks],
        "savepoints": [mark.to_json() for mark in past.savepoints],
        "canary": view.has_canary,
        "lineages": lineage_rows(past.lineages, view),
        "operations": [_operation_row(each) for each in reversed(past.operations[-OPERATIONS:])],
    }


def _operation_row(record: OperationRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "verb": record.verb,
        "at": record.begun_at,
        "by": record.by,
        "savepoint": record.savepoint or None,
        "outcome": record.outcome,
        "step": record.reached,
        "ended_at": record.step_at if record.outcome else None,
        "failure": record.failure,
        "abandoned_by": record.abandoned_by,
    }


def table_of(samples: Iterable[Sample]) -> dict[str, Any]:
    """Return the samples as rows below the names of their fields, which is a third of the size.

    ``phases`` are the fields with the time of a batch's phases, in order.
    """
    names = [each.name for each in fields(Sample) if each.name not in {"phases", "closed"}]
    rows = [
        [
            *(getattr(each, name) for name in names),
            *(each.phases.get(phase, 0) for phase in PHASES),
            *(each.closed.get(reason, 0) for reason in CloseReason),
        ]
        for each in samples
    ]
    named = [*names, *PHASES, *(f"ended_by_{reason}" for reason in CloseReason)]
    return {"fields": named, "phases": [*PHASES], "rows": rows}


def lineage_rows(lineages: Mapping[str, Origin | None], view: StreamView) -> list[dict[str, Any]]:
    """Return the lineages of the stream, the newest first, with the command that made each.

    ``undone_after`` is the last batch whose rows are still in the tables, null if all are: a restore or a rollback
    deleted the later ones.
    """
    seen = view.driver
    active = seen.heartbeat.lineage if seen and seen.heartbeat else None
    path = {each.lineage: each.until for each in path_to(active, None, lineages)} if active else dict.fromkeys(lineages)
    return [
        {
            "lineage": name,
            "verb": origin.verb if origin else None,
            "at": origin.at if origin else None,
            "parent": origin.parent if origin else None,
            "batch_id": origin.batch_id if origin and origin.parent else None,
            "savepoint": origin.savepoint if origin else None,
            "active": name == active,
            "undone_after": path.get(name, BEFORE_THE_FIRST),
        }
        for name, origin in sorted(lineages.items(), reverse=True)
    ]


def live_document(view: StreamView, positions: PositionsRecord | None) -> dict[str, Any]:
    """Return the figures of a stream's open sessions and of its source as they are now. Unknown ones are empty.

    JSON (times are epoch ms)::

        {"open_ages": {"1m": 7, "10m": 3, "1h": 0, "6h": 0, "1d": 0, "older": 1},
         "heaviest_keys": [{"key": "bot", "group": 7, "events": 90000}],
         "straggler": STRAGGLER or null, "positions": POSITIONS or null}

    ``open_ages`` counts open sessions below each age, and ``heaviest_keys`` has the largest ones, both as of the last
    merge of each key group. They are empty until the groups have merged once in the driver's life. STRAGGLER is
    described in ``control.history.sample``, POSITIONS in ``control.records.driver_records``: null unless the
    source is Kafka. A key may name a person, so a reader needs the right to see the stream's rows.
    """
    beat = view.driver.heartbeat if view.driver is not None else None
    return {
        "open_ages": dict(beat.open_ages) if beat else {},
        "heaviest_keys": [each.to_json() for each in beat.heaviest_keys] if beat else [],
        "straggler": beat.straggler.to_json() if beat and beat.straggler else None,
        "positions": positions.to_json() if positions else None,
    }


_Read = TypeVar("_Read")
FRESH_MS: Final = 2_000
"""Milliseconds for which the table of the fleet is shared by its readers."""
SETTLED_MS: Final = 2_000
"""Milliseconds after which an unchanged file counts as written."""


@dataclass
class PageReader:
    """The platform's ``home`` and folder of specs (``streams``).

    ``read_pauses`` says of some streams whether the host has paused the DAG that supervises each, if it knows.
    ``state_of`` says the state of the run of an upgrade by its id. None: the host has no runs, so no upgrade has turns.
    """

    home: Path
    streams: Path
    read_pauses: Callable[[Collection[str]], Mapping[str, bool]] = lambda _: {}
    state_of: Callable[[str], str | None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _fleet: dict[str, Any] = field(default_factory=dict, init=False)
    _specs: dict[Path, tuple[tuple[int, ...], StreamSpec]] = field(default_factory=dict, init=False)
    _saved: dict[DataPath, Mark] = field(default_factory=dict, init=False)
    _records: dict[str, CachedValue[StreamView]] = field(default_factory=lambda: defaultdict(CachedValue), init=False)

    def fleet(self) -> dict[str, Any]:
        """Return the table of the fleet, at most ``FRESH_MS`` old. Raises InvalidSpec, ControlUnreachable."""
        with self._lock:
            now = epoch_ms()
            if not 0 <= now - self._fleet.get("at", 0) < FRESH_MS:
                found = all_streams(self.home, self.streams, self._load, self._read(present_versions()))
                views = [view for view in found if view.is_listed]
                judged = self._judge(views)
                turns = self._turns(judged, now)
                rows = [stream_row(view, _marks(view, now), now) | {"turn": turns.get(view.name)} for view in judged]
                self._fleet = {"at": now, "streams": rows}
            return self._fleet

    def stream(self, name: str, span: int, begin: int = 0) -> dict[str, Any] | None:
        """Return the document of a stream over the last ``span`` ms. None if the platform knows no such stream.

        It has the figures from ``begin`` (epoch ms) on: the reader may have the earlier ones.

        Raises InvalidSpec, DuplicateStream, DamagedFile, ControlUnreachable.
        """
        if not is_name(name):
            return None
        try:
            [view], now = self._judge([find_view(self.home, self.streams, name)]), epoch_ms()
        except UnknownStream:
            return None
        span = min(max(span, LEAST_SPAN_MS), KEPT_MS)
        marks = _marks(view, now)
        shown = [mark for mark in marks if mark.at >= now - span]
        since = max(now - span, begin)
        history = _read_home(view, lambda home: read_history(home, since, now, with_marks=False), History())
        past = Past(
            history=replace(history, marks=tuple(shown)),
            marks=marks,
            savepoints=self._savepoints(view, marks),
            lineages=_read_home(view, origins_of, {}),
            operations=_read_home(view, read_operations, []),
            begun_at=_begin_of(_read_home(view, oldest_record, None), marks),
        )
        return stream_document(view, past, now, span)

    def _load(self, file: Path) -> StreamSpec:
        """Return the spec in ``file``, parsed anew only if the file changed. Raises InvalidSpec.

        A file of the last seconds is not kept, because a clock's step may hide its next change. A spec with a schema
        is not, because the schema is in a file of its own.
        """
        try:
            found = file.stat()
        except OSError:
            return load_stream(file)  # it says what is wrong
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if file in self._specs and self._specs[file][0] == stamp:
            return self._specs[file][1]
        spec = load_stream(file)
        if epoch_ms() - found.st_ctime_ns // 1_000_000 > SETTLED_MS and not getattr(spec.source, "value_schema", None):
            self._specs[file] = (stamp, spec)
        return spec

    def _read(self, versions: Mapping[str, str]) -> Callable[[StreamHome, StreamSpec], StreamView]:
        """Return a reader of a stream's records, beside programs of these ``versions``. It keeps what it read."""
        return lambda home, spec: self._records[home.name].get(lambda: read_records(home, spec), home, spec, versions)

    def _turns(self, views: Sequence[StreamView], now: int) -> dict[str, dict[str, Any]]:
        """Return the streams whose upgrades take turns, and where each stands. Raises InvalidSpec for the pace."""
        read = ((view, _read_home(view, partial(self._find_turn, view, now), None)) for view in views)
        found = [(view, turn) for view, turn in read if turn]
        if not found:
            return {}
        turns, pace = [turn for _, turn in found], Pace.from_environment()
        chosen, failed = choose_next(turns, pace), sum(turn.state is UpgradeState.FAILED for turn in turns)
        return {view.name: describe_turn(turn, view, chosen, failed, pace) for view, turn in found}

    def _find_turn(self, view: StreamView, now: int, home: StreamHome) -> Turn | None:
        return find_turn(home, view.spec, view.waiting, self.state_of, now) if view.spec and self.state_of else None

    def _savepoints(self, view: StreamView, marks: Sequence[Mark]) -> list[Mark]:
        """Return the savepoints that are there, the oldest first. Marks of 7 days if they cannot be seen from here."""
        told = {mark.savepoint or "": mark for mark in marks if mark.kind is MarkKind.SAVEPOINT}
        folder = locate_data(view.home).savepoints if view.home else None
        if not isinstance(folder, Path):  # the page's host needs no key for the store of the data
            return [*told.values()]
        try:
            names = {entry.name for entry in list_entries(folder)}
        except OSError:
            return [*told.values()]
        found = [told.get(name) or self._read_savepoint(SavepointHome(folder / name)) for name in names]
        return sorted(filter(None, found), key=lambda mark: mark.at)

    def _read_savepoint(self, home: SavepointHome) -> Mark | None:
        """Return a savepoint as its mark was, None if it is not complete. A manifest never changes."""
        if home.root not in self._saved:
            manifest = None
            with suppress(SessionizerError, OSError):
                manifest = read_manifest(home)
            if manifest is None:
                return None
            made = {name: getattr(manifest, name) for name in ("lineage", "batch_id", "bytes")}
            kind, what, at = MarkKind.SAVEPOINT, str(manifest.kind), manifest.batch_at
            self._saved[home.root] = Mark(kind=kind, at=at, what=what, savepoint=manifest.id, **made)
        return self._saved[home.root]

    def _judge(self, views: Sequence[StreamView]) -> list[StreamView]:
        paused = self.read_pauses([view.name for view in views])
        return [
            replace(view, noted=PauseRecord(paused=paused[view.name], at=view.now, taken=view.taken))
            if view.name in paused
            else view
            for view in views
        ]


def _read_home(view: StreamView, read: Callable[[StreamHome], _Read], otherwise: _Read) -> _Read:
    """Return what ``read`` finds in the stream's home, else ``otherwise``. The health tells of a damage."""
    try:
        return read(view.home) if view.home else otherwise
    except (SessionizerError, OSError):
        return otherwise


def _marks(view: StreamView, now: int) -> list[Mark]:
    return _read_home(view, lambda home: read_marks(home, now - KEPT_MS, now), [])


def _begin_of(oldest: int | None, marks: Sequence[Mark]) -> int | None:
    """Return the begin of the history. ``oldest``: its oldest record, which may be a whole hour of figures."""
    is_first = bool(marks) and oldest is not None and oldest <= marks[0].at < oldest + HOUR
    return marks[0].at if is_first else oldest
