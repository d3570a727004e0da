"""Records in object stores: what a lease needs of a store, asked of a server of each kind."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient
from upath import UPath

from sessionizer.checkpoint.files import files_of
from sessionizer.control.lease import acquire, read_lease
from sessionizer.errors import LeaseHeld
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.data_files import (
    files_below,
    list_entries,
    list_names,
    make_listed_folder,
    make_writable_control,
    publish_json,
    relative_name,
    remove_tree,
)
from sessionizer.home.roots import folder_at
from sessionizer.home.stream_home import StreamHome
from support.stores.control_fixtures import OBJECT_STORES, home_with, new_folder
from support.stores.object_stores import ObjectStoreServer

_FORK = multiprocessing.get_context("fork")
ON_S3 = pytest.mark.parametrize("control", ["s3"], indirect=True)
OTHERS = [pytest.param(kind, marks=pytest.mark.long) for kind in OBJECT_STORES if kind != "s3"]
IN_EACH = pytest.mark.parametrize("control", ["s3", *OTHERS], indirect=True)
ROUNDS = 10


def _contend(homes: list[StreamHome], uid: str, barrier: Barrier) -> None:
    for home in homes:
        barrier.wait(timeout=60)
        with suppress(LeaseHeld):
            acquire(home, uid).check()
    barrier.wait(timeout=60)  # the winners live until all is decided


@ON_S3
def test_of_two_contenders_one_has_the_lease(control: UPath, tmp_path: Path) -> None:
    homes = [home_with(control, tmp_path, f"round_{number}") for number in range(ROUNDS)]
    barrier = _FORK.Barrier(2)
    contenders = [_FORK.Process(target=_contend, args=(homes, uid, barrier)) for uid in ("a", "b")]
    for each in contenders:
        each.start()
    for each in contenders:
        each.join()
    assert [each.exitcode for each in contenders] == [0, 0]
    for home in homes:
        lease = read_lease(home)
        assert lease is not None
        assert lease.token == 1, "nobody took it from the other one"


@IN_EACH
def test_a_record_is_created_once_and_replaced_whole(control: UPath) -> None:
    make_writable_control([control / "leases"])
    record = Store(control / "leases" / "lease.1.json")
    before = epoch_ms()
    assert record.create(b"mine")
    assert not record.create(b"yours")
    assert record.create(b"mine"), "as after an answer that was lost"
    assert record.read() == b"mine"
    assert abs(record.changed_at_ms() - before) < 60_000
    record.replace(b"longer than before", durable=True)
    record.replace(b"short", durable=False)
    assert record.read() == b"short"
    assert record_names(control / "leases") == ["lease.1.json"]
    record.remove()
    record.remove()
    assert not record.exists()
    assert record_names(control / "leases") == []
    with pytest.raises(FileNotFoundError):
        record.read()


@IN_EACH
def test_what_is_published_stays_as_it_is(control: UPath) -> None:
    """Claim a data root by two homes at once: the first one owns it."""
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


NOBODY = "hdfs://127.0.0.1:9"
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
    command = [sys.executable, "-c", PROGRAM % {"nobody": NOBODY}, *who]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "7\n"
