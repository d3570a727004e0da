"""Background work of a driver: what does not answer, or fails, holds up nothing."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from sessionizer.spark.driver.housekeeping.lookups import BackgroundWork

if TYPE_CHECKING:
    import pytest

WITHIN_S = 10.0


def test_one_piece_is_done_at_a_time_and_nobody_waits_for_it() -> None:
    work, answered, done = BackgroundWork("store"), threading.Event(), list[str]()

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


def test_an_error_ends_one_piece_and_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    work, done, printed = BackgroundWork("store"), list[str](), list[threading.ExceptHookArgs]()
    monkeypatch.setattr(threading, "excepthook", printed.append)

    def fail() -> None:
        raise PermissionError

    work.start(fail)
    work.end(WITHIN_S)
    work.start(lambda: done.append("next"))
    work.end(WITHIN_S)
    assert (done, [each.exc_type for each in printed]) == (["next"], [PermissionError])
