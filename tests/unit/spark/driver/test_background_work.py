"""Background work of a driver: what does not answer holds up nothing, and no error is lost."""

from __future__ import annotations

from threading import Event

import pytest

from sessionizer.spark.driver.housekeeping.background_work import BackgroundWork

WITHIN_S = 10.0


def test_one_piece_is_done_at_a_time_and_nobody_waits_for_it() -> None:
    work, answered, done = BackgroundWork("store"), Event(), list[str]()

    def ask() -> None:
        if answered.wait(WITHIN_S):
            done.append("first")

    work.start(ask)
    assert work.is_busy
    work.start(lambda: done.append("second"))
    work.end(0.01)
    assert done == []
    answered.set()
    work.end(WITHIN_S)
    work.start(lambda: done.append("third"))
    work.end(WITHIN_S)
    assert (done, work.is_busy) == (["first", "third"], False)


def test_an_error_is_raised_once_by_the_next_start() -> None:
    work, done = BackgroundWork("store"), list[str]()

    def fail() -> None:
        raise PermissionError

    work.start(fail)
    while work.is_busy:
        pass
    with pytest.raises(PermissionError):
        work.start(lambda: done.append("not"))
    work.start(lambda: done.append("now"))
    work.end(WITHIN_S)
    assert done == ["now"]
