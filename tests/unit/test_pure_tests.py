"""The watch over the tests of this folder hears each way to start a process."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from support.fixtures.no_process import NotPure, no_process

if TYPE_CHECKING:
    from collections.abc import Callable


def _multiprocess(method: str) -> None:
    process = multiprocessing.get_context(method).Process(target=print)  # type: ignore[attr-defined]
    process.start()


STARTS: dict[str, Callable[[], object]] = {
    "subprocess": lambda: subprocess.Popen(["true"]),
    "a shell": lambda: os.system("true"),  # noqa: S605
    "fork": os.fork,
    "posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "multiprocessing by fork": lambda: _multiprocess("fork"),
    "multiprocessing by spawn": lambda: _multiprocess("spawn"),
    "Airflow's database": lambda: sqlite3.connect("/nowhere/airflow.db"),
}


@pytest.mark.parametrize("way", STARTS)
def test_a_start_is_refused(way: str) -> None:
    with pytest.raises(NotPure), no_process():
        STARTS[way]()


def test_a_start_that_the_product_survives_still_fails_the_test() -> None:
    with pytest.raises(NotPure) as caught, no_process(), suppress(NotPure):
        subprocess.Popen(["true"])
    assert caught.value.event == "subprocess.Popen"
