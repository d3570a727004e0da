"""A job that had the stream for a while is no driver that was killed."""

from __future__ import annotations

import multiprocessing
import time
from typing import TYPE_CHECKING

from sessionizer.control.maintenance import Maintenance, held_for
from sessionizer.control.records.desired_state import DesiredState
from sessionizer_airflow.supervision.decide import Adopt
from support.expected.supervision_records import recorded

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.stream_home import StreamHome
    from sessionizer_airflow.alerting.alert import Alert
    from sessionizer_airflow.supervision.act import Supervisor

PATIENCE_S = 30.0


def hold(home: StreamHome) -> None:
    with held_for(home, Maintenance("restore-1", "alice", "restore", DesiredState.RUNNING), 10, print):
        pass


def test_the_stream_runs_again_and_nobody_is_told_of_a_failure(
    new_supervisor: Callable[[], Supervisor], home: StreamHome, alerts: list[Alert], said: list[str]
) -> None:
    home.prepare()
    new_supervisor().take_over()
    job = multiprocessing.get_context("fork").Process(target=hold, args=(home,))
    job.start()
    job.join()
    assert job.exitcode == 0
    deadline = time.monotonic() + PATIENCE_S
    while not isinstance(new_supervisor().settle(), Adopt):
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
    assert alerts == []
    assert (recorded(home).failures, recorded(home).last_failure) == (0, "")
    assert any("driver restore-1 stopped" in line for line in said)
