"""Records in each kind of control store: a path, HDFS, S3."""

from __future__ import annotations

import multiprocessing
import os
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.errors import DamagedFile
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import record_names, store_at
from sessionizer.home.data_files import make_writable_control
from sessionizer.home.home_identity import home_id
from sessionizer.home.record_file import create_json, examine_json, write_json
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, read_lineage, start_lineage

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.roots import ControlPath

_FORK = multiprocessing.get_context("fork")


def test_records_are_created_once_replaced_whole_listed_and_removed(control: ControlPath) -> None:
    folder = control / "records"
    assert record_names(folder) == []
    make_writable_control([folder])
    first, second = folder / "a.json", folder / "b.json"
    assert not store_at(first).exists()
    assert create_json(first, {"by": 1})
    assert not create_json(first, {"by": 2})
    assert (examine_json(first).value or {})["by"] == 1
    write_json(second, {"by": 3})
    write_json(second, {"by": 4}, durable=False)
    assert examine_json(second).value == {"by": 4}
    assert abs(store_at(second).changed_at_ms() - epoch_ms()) < 600_000
    assert record_names(folder) == ["a.json", "b.json"]
    assert record_names(folder, "b.*") == ["b.json"]
    store_at(second).remove()
    store_at(second).remove()
    assert not store_at(second).exists()
    assert examine_json(second).damage is None
    store_at(folder).make_folder()


def test_a_record_that_is_replaced_is_there_and_whole_at_every_moment(control: ControlPath) -> None:
    path = control / "record.json"
    write_json(path, {"turn": 0, "more": "x" * 2_000})
    enough = threading.Event()

    def replace() -> None:
        for turn in count(1):
            if enough.is_set():
                return
            write_json(path, {"turn": turn, "more": "x" * 2_000}, durable=False)

    writer = threading.Thread(target=replace)
    writer.start()
    seen: list[int] = []
    while writer.is_alive() and len(set(seen)) < 40:
        reading = examine_json(path)
        assert reading.value is not None, reading
        assert len(reading.value["more"]) == 2_000
        seen.append(reading.value["turn"])
    enough.set()
    writer.join()
    assert seen == sorted(seen)
    assert len(set(seen)) == 40


def _read_in_a_child(path: Any) -> None:
    os._exit(7 if (examine_json(path).value or {}).get("by") == "parent" and create_json(path.parent / "c", {}) else 1)


def test_a_forked_child_reads_and_writes_on_its_own(control: ControlPath) -> None:
    path = control / "record.json"
    write_json(path, {"by": "parent"})
    assert examine_json(path).value == {"by": "parent"}, "its connection is kept"
    child = _FORK.Process(target=_read_in_a_child, args=(path,))
    child.start()
    child.join(60)
    assert child.exitcode == 7
    assert record_names(control, "c") == ["c"]
    assert examine_json(path).value == {"by": "parent"}


def test_all_homes_with_one_control_root_have_one_identity(control: ControlPath, tmp_path: Path) -> None:
    assert home_id(control) == home_id(control)
    home = StreamHome(tmp_path / "streams/clicks", control_root=None if control == tmp_path else control)
    home.prepare()
    lineage = start_lineage(home)
    assert active_lineage(home) == lineage
    (home.lineage(lineage).records / "types.json").write_text("{}")
    store_at(home.lineage_record).remove()
    with pytest.raises(DamagedFile, match=r"lineage.json is damaged"):
        read_lineage(home)
