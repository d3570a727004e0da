"""Records in each kind of control store: a path, HDFS, S3."""

import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient
from upath import UPath

from sessionizer.checkpoint.files import files_of
from sessionizer.errors import DamagedFile, StoreUnreachable, UnwritablePath
from sessionizer.home import roots
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.data_files import (
    data_exists,
    files_below,
    list_entries,
    list_names,
    make_listed_folder,
    make_writable_control,
    publish_json,
    relative_name,
    remove_tree,
)
from sessionizer.home.home_identity import home_id
from sessionizer.home.local_files import BoundedLog
from sessionizer.home.record_file import create_json, examine_json, read_json, write_json
from sessionizer.home.roots import ControlPath, folder_at
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, read_lineage, start_lineage
from support.places import known
from support.processes.ports import eventually
from support.stores.control_fixtures import HDFS, PATH, new_folder
from support.stores.object_stores import ObjectStoreServer

_FORK = multiprocessing.get_context("fork")


IN_OBJECTS = ["s3", *(pytest.param(store, marks=pytest.mark.long) for store in ("gcs", "azure"))]


@pytest.mark.parametrize("control", [PATH, pytest.param(HDFS, marks=pytest.mark.long), *IN_OBJECTS], indirect=True)
def test_records_are_created_once_replaced_whole_listed_and_removed(control: ControlPath) -> None:
    folder = control / "records"
    assert record_names(folder) == []
    make_writable_control([folder])
    first, second = folder / "a.json", folder / "b.json"
    assert not Store(first).exists()
    assert create_json(first, {"by": 1})
    assert not create_json(first, {"by": 2})
    assert (examine_json(first).value or {})["by"] == 1
    write_json(second, {"by": 3})
    write_json(second, {"by": 4}, durable=False)
    assert examine_json(second).value == {"by": 4}
    assert abs(Store(second).changed_at_ms() - epoch_ms()) < 60_000
    Store(second).replace(b"longer than before, whatever it was", durable=True)
    Store(second).replace(b"short", durable=False)
    assert Store(second).read() == b"short"
    assert record_names(folder) == ["a.json", "b.json"]
    assert record_names(folder, "b.*") == ["b.json"]
    Store(second).remove()
    Store(second).remove()
    assert not Store(second).exists()
    assert examine_json(second).damage is None
    with pytest.raises(FileNotFoundError):
        Store(second).read()
    assert record_names(folder) == ["a.json"]
    Store(folder).make_folder()


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
    Store(home.lineage_record).remove()
    with pytest.raises(DamagedFile, match=r"lineage.json is damaged"):
        read_lineage(home)


@pytest.fixture
def silent_address() -> Iterator[str]:
    """The address of a server that accepts connections, and neither answers nor closes them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    ("uri", "variable"),
    [
        ("s3://bucket/lake", "AWS_ENDPOINT_URL"),
        # gcsfs waits for half a minute between its tries
        pytest.param("gs://bucket/lake", "STORAGE_EMULATOR_HOST", marks=pytest.mark.long),
    ],
)
def test_a_client_gives_up(uri: str, variable: str, silent_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "of-tests")
    monkeypatch.setenv(variable, silent_address)
    monkeypatch.setattr(roots, "CLIENT_READS_WITHIN_S", 0.2)
    with pytest.raises(StoreUnreachable) as refused:
        data_exists(folder_at(uri))
    assert refused.value.path == uri


def _document(number: int) -> dict[str, object]:
    return {"first": number, "padding": "x" * (number % 20_000), "last": number}


def _rewrite(path: Path, enough: Any) -> None:
    for number in count():
        if enough.value:
            return
        write_json(path, _document(number), durable=False)


def test_a_reader_never_sees_half_a_file_while_it_is_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat.json"
    write_json(path, _document(0))
    enough = _FORK.RawValue("b")
    writer = _FORK.Process(target=_rewrite, args=(path, enough))
    writer.start()
    seen: set[int] = set()
    while writer.is_alive() and len(seen) <= 300:
        reading = examine_json(path)
        assert reading.damage is None
        value = known(reading.value)
        assert value == _document(value["first"])
        seen.add(value["first"])
    enough.value = 1
    writer.join()
    assert writer.exitcode == 0
    assert [path] == list(tmp_path.iterdir())


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat.json"
    write_json(path, _document(0))
    for round_number in range(20):
        writer = _FORK.Process(target=_rewrite, args=(path, _FORK.RawValue("b")))
        writer.start()
        time.sleep(0.003 * round_number)
        writer.kill()
        writer.join()
        value = known(read_json(path))
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


def _has_word(path: Path, word: str) -> bool:
    return word in path.read_text()


def test_another_process_goes_on_writing_to_the_same_file(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path / "driver.a.log", limit_bytes=3)
    program = "import sys\nfor line in sys.stdin: print(line.strip() * 2, flush=True)"
    with log.path.open("ab") as output:
        writer = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=output, text=True, bufsize=1
        )
    with known(writer.stdin) as told:
        for word in ("before", "after"):
            told.write(f"{word}\n")
            told.flush()
            eventually(partial(_has_word, log.path, word))
            if word == "before":
                assert log.trim()
    writer.wait()
    assert log.path.read_bytes() == b"afterafter\n", "no hole where the old text was"
    assert log.parts()[0].read_text() == "beforebefore\n"


@pytest.mark.parametrize("control", IN_OBJECTS, indirect=True)
def test_what_is_published_stays_as_it_is(control: UPath) -> None:
    """Claim a data root by two homes at once: the first one owns it. An answer to it may be lost."""
    record = Store(control / "record.json")
    assert record.create(b"mine")
    assert not record.create(b"yours")
    assert record.create(b"mine"), "as after an answer that was lost"
    assert record.read() == b"mine"
    record.remove()
    publish_json(control / "owner.json", {"stream": "mine"})
    publish_json(control / "owner.json", {"stream": "yours"})
    assert b"mine" in (control / "owner.json").read_bytes()
    assert record_names(control) == ["owner.json"]


FOLDERS = ("", "/offsets", "/state", "/state/0")


@pytest.fixture(params=["s3", pytest.param("azure", marks=pytest.mark.long)])
def folder(
    request: pytest.FixtureRequest,
    object_store_servers: Callable[[str], ObjectStoreServer],
    monkeypatch: pytest.MonkeyPatch,
) -> UPath:
    """A checkpoint with two files, and the connector's marks of its folders."""
    found = folder_at(f"{new_folder(object_store_servers(request.param), monkeypatch)}/checkpoint")
    assert isinstance(found, UPath)
    for each in FOLDERS:
        if request.param == "s3":
            found.fs.pipe_file(f"{found.path}{each}/", b"")
        else:
            mark_on_azure(f"{found.path}{each}")
    for name in ("offsets/0", "state/0/schema"):
        (found / name).write_text("v1")
    return found


def mark_on_azure(path: str) -> None:
    """An empty blob with the folder's name, which its metadata call a folder."""
    container, _, name = path.partition("/")
    with BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"]) as client:
        client.get_blob_client(container, name).upload_blob(b"", metadata={"hdi_isfolder": "true"})


def test_what_marks_a_folder_is_no_file_of_it(folder: UPath) -> None:
    assert sorted(list_names(folder)) == ["offsets", "state"]
    assert [entry.name for entry in list_entries(folder / "offsets")] == ["0"]
    assert [relative_name(file, folder) for file in files_below(folder)] == ["offsets/0", "state/0/schema"]
    assert sorted(files_of(folder).sizes) == ["offsets/0", "state/0/schema"]


def test_a_folder_is_removed_with_all_in_it(folder: UPath) -> None:
    remove_tree(folder)
    remove_tree(folder)
    assert not folder.exists()


def test_an_empty_folder_is_there_for_spark(folder: UPath) -> None:
    make_listed_folder(folder / "punctuations")
    assert (folder / "punctuations").is_dir()
    assert list_entries(folder / "punctuations") == []
    publish_json(folder / "punctuations" / "a.json", {"floor_ms": 7})
    publish_json(folder / "punctuations" / "a.json", {"floor_ms": 8})
    assert (folder / "punctuations" / "a.json").read_text().count("7") == 1


HDFS_OF_NOBODY = "hdfs://127.0.0.1:9"
"""A client is made without a connection."""
PROGRAM = """
import os, sys
from upath import UPath
from sessionizer.home.roots import folder_at
opened = {"ours": lambda: folder_at("%(nobody)s/control").fs, "a library's": lambda: UPath("%(nobody)s/other").fs}
for who in sys.argv[1:]:
    opened[who]()
folder_at("%(nobody)s/control")
child = os.fork()
if child == 0:
    UPath("%(nobody)s/control").fs
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("who", [("ours",), ("a library's",), ("a library's", "ours")], ids=" and ".join)
def test_a_forked_child_opens_a_client_of_its_own(who: tuple[str, ...]) -> None:
    """Else the child waits without end for threads that only its parent has."""
    command = [sys.executable, "-c", PROGRAM % {"nobody": HDFS_OF_NOBODY}, *who]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout == "7\n"
