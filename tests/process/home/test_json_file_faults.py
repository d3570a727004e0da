"""Half a file is never seen: not while it is rewritten, not after a kill, not on a full disk."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
from itertools import count
from typing import TYPE_CHECKING

import pytest

from sessionizer.errors import UnwritablePath
from sessionizer.home.record_file import create_json, examine_json, read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

_FORK = multiprocessing.get_context("fork")

_PADDING = 20_000


def _document(number: int) -> dict[str, object]:
    return {"first": number, "padding": "x" * (number % _PADDING), "last": number}


def _rewrite(path: Path, times: int | None) -> None:
    for number in range(times) if times else count():
        write_json(path, _document(number), durable=False)


def test_a_reader_never_sees_half_a_file_while_it_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat.json"
    write_json(path, _document(0))
    writer = _FORK.Process(target=_rewrite, args=(path, 5_000))
    writer.start()
    seen = set()
    while writer.is_alive():
        reading = examine_json(path)
        assert reading.damage is None
        assert reading.value is not None
        assert reading.value == _document(reading.value["first"])
        seen.add(reading.value["first"])
    writer.join()
    assert writer.exitcode == 0
    assert len(seen) > 100
    assert [path] == list(tmp_path.iterdir())


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat.json"
    write_json(path, _document(0))
    for round_number in range(20):
        writer = _FORK.Process(target=_rewrite, args=(path, None))
        writer.start()
        time.sleep(0.003 * round_number)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        value = read_json(path)
        assert value is not None
        assert value == _document(value["first"])


def _write_on_a_full_disk(path: Path) -> None:
    # A limit within the document: the write stops half-way, as on a disk that fills up.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
    for write in (write_json, create_json):
        with pytest.raises(UnwritablePath, match="File too large"):
            write(path, _document(10_000))


def test_a_full_disk_keeps_the_old_file_and_leaves_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "desired.json"
    write_json(path, _document(1))
    writer = _FORK.Process(target=_write_on_a_full_disk, args=(path,))
    writer.start()
    writer.join()
    assert writer.exitcode == 0
    assert read_json(path) == _document(1)
    assert [path] == list(tmp_path.iterdir())
