"""What a person reads at the end of a failed task's log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from sessionizer.errors import SparkConnectionMissing
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.failed_task import WIDTH, PersonNeeded, fit_lines, say_what_to_do

if TYPE_CHECKING:
    import pytest

    from support.fixtures.reviewed import Reviewed

LOG = "/platform/streams/clicks/logs/" + "driver.0123456789ab.log"
ENDED = SupervisionEnded("clicks", "5 failures in a row, the last: driver a failed", f"free space (its log: {LOG})")


def test_what_to_do_is_the_last_line_and_an_error(caplog: pytest.LogCaptureFixture, reviewed: Reviewed) -> None:
    with caplog.at_level(logging.INFO):
        say_what_to_do({"exception": PersonNeeded.wrap(ENDED)})
    *_, reason, remedy = caplog.records
    assert caplog.messages[0] == "::endgroup::", "what follows would be folded away"
    reviewed(reason.getMessage())
    reviewed(remedy.getMessage())
    assert {reason.levelname, remedy.levelname} == {"ERROR"}


def test_the_exception_says_only_what_happened(reviewed: Reviewed) -> None:
    error = PersonNeeded.wrap(SparkConnectionMissing("spark_default"))
    assert isinstance(error, AirflowFailException), "it would be tried again"
    assert "What to do" not in str(error)
    reviewed(error.remedy)


def test_failures_of_others_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    for error in (RuntimeError("no"), "killed", None):
        say_what_to_do({"exception": error})
    assert caplog.messages == []


def test_long_lines_fit_the_screen_and_paths_stay_whole(reviewed: Reviewed) -> None:
    path = "/" + "x" * WIDTH
    text = fit_lines(f"waiting for {path} and {'much else ' * 20}. What to do: mend it")
    lines = text.splitlines()
    assert path in [line.strip() for line in lines]
    reviewed(lines[-1].strip())
    assert all(len(line.strip()) <= WIDTH for line in lines if path not in line)
