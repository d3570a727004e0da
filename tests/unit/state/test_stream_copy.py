"""The home of a copied stream: its own records, tables and spec. The files of the source stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.control.operation import Operation, new_operation
from sessionizer.home.clock import epoch_ms
from sessionizer.home.names import mint_id
from sessionizer.home.roots import data_root, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.stream_copy import COPIES, StreamCopy, new_copy
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.loading.folder import find_stream
from support.expected.folder_digest import folder_digest
from support.streams.stage import clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 24 * 3_600_000


def spec(sink: str | None = None, **source: Any) -> StreamSpec:
    written = clicks_spec()
    written["source"] |= source
    return StreamSpec.model_validate({**written, "name": "clicks", "sink": {"path": sink}})


def test_a_copy_is_a_home_of_its_own(home: StreamHome) -> None:
    with new_copy(home) as copy:
        for place in (copy.home.control, copy.home.data, copy.specs):
            assert uri_of(place).startswith(f"{home.root / COPIES}/")
        assert copy.home.name == home.name
    assert copy.home.control.is_dir()


@pytest.mark.parametrize("data", ["/data", "hdfs://namenode:8020/data"])
def test_its_data_are_in_the_data_root_of_the_stream(tmp_path: Path, data: str) -> None:
    home = StreamHome.of(tmp_path, "clicks", data_root(data, tmp_path))
    copy = StreamCopy(home, "c1")
    assert uri_of(copy.home.data) == f"{data}/streams/clicks/{COPIES}/c1/streams/clicks"
    assert copy.platform.is_relative_to(home.root)
    said = "\n".join(copy.lines())
    assert f"--data {data}/streams/clicks/{COPIES}/c1" in said


def test_nothing_is_left_of_a_copy_that_fails(home: StreamHome) -> None:
    with pytest.raises(ValueError, match="no"), new_copy(home):
        raise ValueError("no")
    assert list((home.root / COPIES).iterdir()) == []


def test_a_copy_that_a_killed_command_left_goes_after_a_day(home: StreamHome) -> None:
    now = epoch_ms()
    killed, young, finished = (StreamCopy(home, mint_id(now - age)) for age in (2 * DAY_MS, 60_000, 3 * DAY_MS))
    for copy in (killed, young, finished):
        copy.home.prepare()
    record = new_operation(finished.home, "upgrade", "0" * 16, "ann", ("", -1))
    Operation(finished.home, record, lambda: None).finish("20261123T143621-abe542")
    with new_copy(home):
        assert not killed.platform.exists()
        assert young.platform.exists()
        assert finished.platform.exists()


def test_the_spec_of_a_copy_reads_the_same_source_and_writes_elsewhere(home: StreamHome) -> None:
    copy = StreamCopy(home, "c1")
    found = copy.spec(spec(sink="/lake/clicks", options={"cleanSource": "delete", "maxFilesPerTrigger": 1}))
    assert found.source.format == "files"
    assert found.source.path == str(home.platform / "feed")
    assert found.source.options == {"maxFilesPerTrigger": "1"}
    assert str(found.sink.path).startswith(f"{copy.home.data}/")
    other = copy.spec(spec(sink="/lake/others"))
    assert other.sink.path != found.sink.path
    assert copy.spec(spec()).sink.path is None
    assert copy.spec(found) == copy.spec(found), "as often as it is asked for"


def test_a_copy_takes_no_name_from_the_tables_of_the_stream(home: StreamHome) -> None:
    written = spec()
    named = written.model_copy(update={"sink": written.sink.model_copy(update={"table": "web.sessions"})})
    assert StreamCopy(home, "c1").spec(named).sink.table is None


def test_the_spec_of_a_copy_is_found_in_its_own_folder(home: StreamHome) -> None:
    with new_copy(home) as copy:
        written = copy.spec(spec(sink="lake"))
        copy.write_spec(written)
        assert find_stream(copy.specs, "clicks") == written


def test_removed_it_leaves_the_stream_as_it_was(home: StreamHome) -> None:
    (home.root / COPIES).mkdir()
    before = folder_digest(home.root)
    with new_copy(home) as copy:
        assert folder_digest(home.root) != before
    copy.remove()
    assert folder_digest(home.root) == before
