"""A fleet in every state, with a history: what the Streams page is looked at with. No process, no Spark."""

import json
import math
import random
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

from sessionizer.control.history.files import Mark, MarkKind, add_mark, hour_name, write_hour
from sessionizer.control.history.sample import SAMPLE_MS, Sample, minute_of
from sessionizer.control.lease import acquire
from sessionizer.control.maintenance import record_failure
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Phase
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, write_exit
from sessionizer.control.records.supervision_records import (
    SUPERVISION_FILE,
    DesiredState,
    SupervisionRecord,
    write_desired,
)
from sessionizer.errors import QueryInterrupted
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.spec_folder import load_stream
from support.places import mounted
from support.processes.fabricated_platform import Platform, beat

MINUTES: Final = 7 * 24 * 60
KINDS: Final = (
    "clicks", "checkout", "mobile_app", "search", "video_plays", "billing", "access_log", "loyalty", "newsletter",
    "returns", "support_chat",
)  # fmt: skip


@dataclass(frozen=True)
class Course:
    """The course of a stream's figures: each takes the minute before now, from ``MINUTES`` down to 0."""

    rate: Callable[[int], float]
    lag: Callable[[int], float]
    refused: Callable[[int], float] = lambda _: 0
    batch_ms: Callable[[int], float] = lambda _: 1_900


def _day(minute: int) -> float:
    return 1 + 0.6 * math.sin(minute / 1440 * 2 * math.pi)


STEADY: Final = Course(rate=lambda m: 1_400 * _day(m), lag=lambda _: 31_000)
BEHIND: Final = Course(
    rate=lambda m: 2_100 * _day(m),
    lag=lambda m: 31_000 + max(0, 90 - m) * 40_000,
    batch_ms=lambda m: 9_700 if m < 90 else 3_000,
)
POISON: Final = Course(rate=lambda m: 700 * _day(m), lag=lambda _: 22_000, refused=lambda m: 0.3 if m < 200 else 0.001)


def fabricate(platform: Platform) -> None:
    now = epoch_ms()
    for name in KINDS:
        platform.add(name).prepare()
        write_desired(StreamHome.of(platform.home, name), DesiredState.RUNNING, by="olga", why="")
    for name, course in {"clicks": STEADY, "checkout": BEHIND, "mobile_app": POISON, "search": STEADY}.items():
        work(platform, name, course, now)
    work(platform, "video_plays", STEADY, now, silent_ms=11 * 60_000)
    _idle(platform, "newsletter", now)
    _end(
        platform,
        "billing",
        now,
        SupervisionRecord(
            failures=6,
            given_up=True,
            last_failure="memory ran out: Java heap space",
            last_failure_ms=epoch_ms() + 1_000,
            remedy="give the driver more memory (SPARK_DRIVER_MEMORY)",
        ),
    )
    _end(
        platform,
        "loyalty",
        now,
        SupervisionRecord(
            attempts=4,
            waiting_since=now - 700_000,
            restart_at=now + 45_000,
            last_failure="broker-1:9092 does not answer",
            last_failure_ms=now - 15_000,
            cause="unreachable",
            remedy="see that what the message names answers: a broker, a store, a name node",
        ),
    )
    _stop(platform, "returns")
    platform.add("support_chat", "name: support_chat\nsource: {}\n")


def keep_beating(platform: Platform, silent: AbstractSet[str] = frozenset()) -> None:
    for name in {"clicks", "checkout", "mobile_app", "search", "newsletter"} - silent:
        home, now = StreamHome.of(platform.home, name), epoch_ms()
        if (found := HEARTBEAT_FILE.of(home).read()) is not None:
            HEARTBEAT_FILE.of(home).write(replace(found, at=now, progress_at=now))


def work(platform: Platform, name: str, course: Course, now: int, silent_ms: int = 1_000) -> None:
    home = StreamHome.of(platform.home, name)
    home.prepare()
    spec = document_of(load_stream(platform.streams / f"{name}.yaml"))
    lineage = start_lineage(home, spec=LineageSpec(spec, now))
    acquire(home, "driver-1")
    record = next(iter(sorted(mounted(home.leases).iterdir())))
    record.write_text(json.dumps({**json.loads(record.read_text()), "acquired_at": now - 3_600_000}))
    samples = list(write_course(home, course, lineage, now))
    last = samples[-1]
    at = now - silent_ms
    beat(
        home, at=at, progress_at=at, lineage=lineage, batch_id=last.batch_id, batch_at=at, batch_ms=last.longest_ms,
        input_rows=last.rows // 6, rows_per_second=round(last.rate, 1), watermark_ms=at - (last.lag_ms or 0),
        watermark_lag_ms=last.lag_ms, open_keys=last.open, state_bytes=last.state_bytes, source_lag=last.source_lag,
        late=12, quarantined=3, heaviest_group=5, heaviest_group_bytes=last.group_bytes,
    )  # fmt: skip
    _mark(home, lineage, now)


def write_course(home: StreamHome, course: Course, lineage: str, now: int) -> list[Sample]:
    """Write a week of samples, with a hole where a driver was down."""
    drawn = random.Random(home.name)
    samples = [
        _sample(course, minute, lineage, minute_of(now) - minute * SAMPLE_MS, drawn)
        for minute in range(MINUTES, -1, -1)
        if not 60 < minute < 74
    ]
    home.history.mkdir(parents=True, exist_ok=True)
    hours: dict[str, list[Sample]] = {}
    for sample in samples:
        hours.setdefault(hour_name(sample.at), []).append(sample)
    for hour, found in hours.items():
        write_hour(home, hour, found)
    return samples


def _sample(course: Course, minute: int, lineage: str, at: int, drawn: random.Random) -> Sample:
    rows = int(course.rate(minute) * 60 * drawn.uniform(0.85, 1.15))
    each = course.batch_ms(minute) * drawn.uniform(0.9, 1.2)
    batch_ms = int(each * 6)
    lag = int(course.lag(minute) * drawn.uniform(0.95, 1.05))
    return Sample(
        at=at, lineage=lineage, batch_id=90_000 - minute * 6, batches=6, rows=rows, batch_ms=batch_ms,
        longest_ms=int(each * 1.3), phases={"plan": batch_ms // 10, "evaluate": batch_ms // 2, "write": batch_ms // 3,
        "commit": batch_ms // 16}, lag_ms=lag, source_lag=int(lag * rows / 60_000), watermark_ms=at - lag,
        open=int(rows * 0.4), state_bytes=int(rows * 90), sessions=rows // 20, late=rows // 900,
        closed={"gap": rows // 20 - rows // 90, "max_events": rows // 90},
        refused=int(rows * course.refused(minute)), group=minute % 16, group_bytes=int(rows * 9),
        group_p99_bytes=int(rows * 7), key="bot-7", key_events=9_000, key_p99_events=240, waited_ms=4_000,
    )  # fmt: skip


def _mark(home: StreamHome, lineage: str, now: int) -> None:
    def mark(hours: float, kind: MarkKind, what: str = "", text: str = "", **more: Any) -> None:
        at = int(now - hours * 3_600_000)
        add_mark(home, Mark(kind=kind, at=at, what=what, text=text, lineage=lineage, **more))

    for savepoint in ("20261125T010203-a1b2c3", "20261126T010203-d4e5f6", "20261126T031500-0a9b8c"):
        mounted(home.savepoints / savepoint).mkdir(parents=True)
    mark(150.0, MarkKind.START, uid="driver-0")
    mark(96.2, MarkKind.COMMAND, "rescale", by="olga")
    mark(96.1, MarkKind.CANARY, "passed")
    mark(26.0, MarkKind.SAVEPOINT, "native", "scheduled", savepoint="20261125T010203-a1b2c3", batch_id=80_000)
    mark(5.4, MarkKind.SAVEPOINT, "native", "scheduled", savepoint="20261126T010203-d4e5f6", batch_id=88_000)
    mark(
        2.3, MarkKind.SAVEPOINT, "canonical", "before the release", savepoint="20261126T031500-0a9b8c", batch_id=89_000
    )
    mark(1.24, MarkKind.CRASH, "memory", "Job aborted: Java heap space", uid="driver-0")
    mark(1.235, MarkKind.ALERT, "replaced", "memory ran out: driver driver-0 ended")
    mark(1.02, MarkKind.START, uid="driver-1")


def _idle(platform: Platform, name: str, now: int) -> None:
    _, home = platform.drive(name, phase=Phase.IDLE, batch_id=7, progress_at=now, open_keys=12, state_bytes=90_000)
    add_mark(home, Mark(kind=MarkKind.START, at=now - 50_000_000, uid="driver-1"))


def _end(platform: Platform, name: str, now: int, record: SupervisionRecord) -> None:
    lease, home = platform.drive(name, batch_id=31)
    record_failure(home, lease.uid, QueryInterrupted(name, record.cause or "memory", record.last_failure))
    SUPERVISION_FILE.of(home).write(record)
    for hours in (5, 4, 3, 2):
        add_mark(
            home,
            Mark(
                kind=MarkKind.CRASH, at=now - hours * 3_600_000, what=record.cause or "memory", text=record.last_failure
            ),
        )
        add_mark(home, Mark(kind=MarkKind.START, at=now - hours * 3_600_000 + 60_000, uid="driver-1"))


def _stop(platform: Platform, name: str) -> None:
    lease, home = platform.drive(name, batch_id=9)
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED, batch_id=9))
    write_desired(home, DesiredState.STOPPED, by="kim", why="no traffic this week")
