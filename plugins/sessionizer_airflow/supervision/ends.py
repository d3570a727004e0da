"""How a driver ended, or why it has to be ended: as a failure with its cause, pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.causes.table import (
    HALF_GONE,
    HUNG,
    KILLED,
    NO_PROGRESS,
    NO_START,
    NOT_LEAVING,
    OUT_OF_SIGHT,
    cause_of,
)
from sessionizer.control.status.observation import Stall
from sessionizer.redaction import redacted
from sessionizer_airflow.supervision.decisions import Replace
from sessionizer_airflow.supervision.history import Failure

if TYPE_CHECKING:
    from sessionizer.causes.table import Cause
    from sessionizer_airflow.supervision.situation import Driver

LINE_LIMIT = 300


def failure_of(driver: Driver | None) -> Failure | None:
    """The failure that ended the driver; None if it lives, or ended as it was told to."""
    if driver is None or not driver.has_ended or driver.ended_on_purpose:
        return None
    return Failure(
        what=describe_end(driver),
        cause=cause_of_end(driver),
        uid=driver.uid,
        lifetime=driver.lifetime,
        log=driver.log,
    )


def cause_of_end(driver: Driver) -> Cause:
    """Why it ended, or never began."""
    if driver.start_problem is not None:
        return driver.start_problem.cause
    ending = driver.ending
    return KILLED if ending is None else cause_of(ending.error_type, ending.message or "", terminal=ending.terminal)


def describe_end(driver: Driver) -> str:
    """How the driver ended, in one line."""
    ending = driver.ending
    if driver.start_problem is not None:
        return f"driver {driver.uid} did not start: {redacted(driver.start_problem.said)}"
    if ending is None:
        return f"driver {driver.uid} vanished without an exit record"
    cause = ": ".join(part for part in (ending.error_type, first_line(ending.message or "")) if part)
    return f"driver {driver.uid} {ending.outcome}" + (f" ({cause})" if cause else "")


def replacement(driver: Driver, now_ms: int) -> Replace:
    """Why a driver that is `State.STALLED` is replaced."""
    if driver.without_jvm:
        return Replace(driver.uid, "its JVM is gone", HALF_GONE)
    if driver.out_of_sight is not None:
        silent = f"{driver.out_of_sight} cannot be seen from here, and it has been silent for"
        return Replace(driver.uid, f"{silent} {_seconds(now_ms - driver.heard_ms)}", OUT_OF_SIGHT, out_of_sight=True)
    if driver.start_problem is not None:
        return Replace(
            driver.uid,
            f"{_no_batch(driver, now_ms)}: {redacted(driver.start_problem.said)}",
            driver.start_problem.cause,
        )
    if driver.batch_id is None and driver.stall is not Stall.NO_PROGRESS:
        return Replace(driver.uid, _no_batch(driver, now_ms), NO_START)
    last = "" if driver.batch_id is None else f", last after batch {driver.batch_id}"
    if driver.stall is Stall.NO_PROGRESS:
        stuck = now_ms - (driver.heard_ms if driver.progress_ms is None else driver.progress_ms)
        return Replace(driver.uid, f"no progress for {_seconds(stuck)}{last}", NO_PROGRESS)
    return Replace(driver.uid, f"silent for {_seconds(now_ms - driver.heard_ms)}{last}", HUNG)


def left_over(driver: Driver) -> Replace:
    """Why a process is ended whose driver has ended in its own words, or only in part."""
    if driver.ending is None:
        return Replace(driver.uid, "only a part of it is left", HALF_GONE)
    return Replace(driver.uid, "its process did not end after its exit record", NOT_LEAVING)


def first_line(message: str) -> str:
    """What fits into a line of a log; the rest is in the exit record and the driver's log."""
    line = redacted(message).partition("\n")[0]
    return line if len(line) <= LINE_LIMIT else line[:LINE_LIMIT] + "…"


def _no_batch(driver: Driver, now_ms: int) -> str:
    return f"no batch {_seconds(now_ms - driver.launched_ms)} after its launch"


def _seconds(ms: int) -> str:
    return f"{ms // 1000} s"
