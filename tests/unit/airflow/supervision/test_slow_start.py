"""The start of a driver in a cluster: for how long it is left alone, by what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from sessionizer.causes.cause import NO_START
from sessionizer.control.lease import write_lease
from sessionizer.control.records.airflow_records import SupervisionRecord
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import LAUNCH_FILE, LaunchRecord, LeaseRecord
from sessionizer.home.clock import MINUTE, SECOND
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.supervision.decide import Adopt, Replace, decide
from sessionizer_airflow.supervision.observe import read_situation
from sessionizer_airflow.supervision.policy import SupervisionPolicy

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_800_000_000_000
POLICY = SupervisionPolicy()
GRACE = POLICY.startup_grace_ms


class Start(NamedTuple):
    """Times in ms before now. None: it has not come so far."""

    submitted: int
    leased: int | None = None
    got_on: int | None = None
    replaced: str | None = None


STARTS = {
    "it waits in the queue": Start(GRACE),
    "it waits in the queue for too long": Start(GRACE + SECOND, replaced="no batch 181 s after its launch"),
    "submitted long ago, leased just now": Start(60 * MINUTE, GRACE),
    "a step of its start was done just now": Start(277 * SECOND, GRACE + SECOND, 20 * SECOND),
    "the newest step is as old as the grace": Start(60 * MINUTE, 59 * MINUTE, GRACE),
    "it beats, and no step was ever done": Start(
        277 * SECOND, GRACE + SECOND, replaced="no batch 277 s after its launch"
    ),
    "no step was done for longer than the grace": Start(
        400 * SECOND,
        390 * SECOND,
        GRACE + SECOND,
        replaced="no batch 400 s after its launch, and no progress of its start for 181 s",
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_is_left_alone_as_long_as_it_gets_on(name: str, tmp_path: Path) -> None:
    start, home = STARTS[name], StreamHome.of(tmp_path, "clicks")
    home.prepare()
    launch = LaunchRecord(uid="a", at=NOW - start.submitted, log="", master="yarn", submission="tag")
    LAUNCH_FILE.of(home).write(launch)
    if start.leased is not None:
        assert write_lease(home, LeaseRecord(1, NOW - start.leased, "a", 7, 7, "worker-9", "another boot"))
        progress_at = None if start.got_on is None else NOW - start.got_on
        beat = Heartbeat("a", NOW - SECOND, NOW - start.leased, Phase.STARTING, progress_at=progress_at)
        HEARTBEAT_FILE.of(home).write(beat)
    decision = decide(read_situation(home, POLICY, NOW), SupervisionRecord(), POLICY, NOW)
    if start.replaced is None:
        assert decision == Adopt("a", "STARTING")
    else:
        assert decision == Replace("a", start.replaced, NO_START)
