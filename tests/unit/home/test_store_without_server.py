"""Data in a store that does not answer is known as away at once, and never taken for absent or damaged."""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from botocore.exceptions import ReadTimeoutError
from fsspec.implementations.memory import MemoryFileSystem
from s3fs import S3FileSystem
from upath import UPath

from sessionizer.checkpoint.files import files_of
from sessionizer.checkpoint.log_entries import read_last_commit
from sessionizer.deployment.differences import SinkColumns
from sessionizer.deployment.upgrade_plan import sink_columns
from sessionizer.errors import StoreUnreachable
from sessionizer.home.control_store import translate_to_os_error
from sessionizer.home.data_files import (
    commits_of,
    copy_file,
    data_exists,
    examine_data_json,
    files_below,
    is_folder,
    is_store_away,
    list_names,
    make_data_folder,
    make_writable,
    publish_json,
    read_data,
    read_data_text,
    remove_data,
    remove_tree,
    size_of,
    write_data_text,
)
from sessionizer.home.roots import DataPath, folder_at, uri_of
from sessionizer.home.stream_home import SavepointHome
from sessionizer.spark.history.history_rows import find_in_folder, state_at
from sessionizer.spark.sinks.examine import ChangeWatch, TableCheck
from sessionizer.state.savepoints.listing import list_savepoints, read_use_mark, readers_of, savepoint_of
from sessionizer.state.savepoints.manifest import read_manifest
from sessionizer.state.savepoints.verification import digest_files
from support.streams.stage import Stage, clicks_spec

SAVEPOINT: Final = "20261121T105501-3fa9c2"
AWAY: Final = "hdfs://127.0.0.1:1/lake"
"""HDFS's client would try for minutes."""
S3: Final = "s3://away/lake"
"""The errors of this client are no OSErrors."""
READERS: Final[dict[str, Callable[[DataPath], object]]] = {
    "exists": data_exists,
    "is a folder": is_folder,
    "size": size_of,
    "bytes": read_data,
    "text": read_data_text,
    "JSON": examine_data_json,
    "names": list_names,
    "files below": lambda folder: list(files_below(folder)),
    "tree": lambda folder: files_of(folder).sizes,
    "copy": lambda file: copy_file(file, file),
    "removal of a file": remove_data,
    "removal of a folder": remove_tree,
    "new folder": make_data_folder,
    "writable folder": lambda folder: make_writable(folder, "SESSIONIZER_DATA"),
    "new file": lambda file: write_data_text(file, "0"),
    "new JSON": lambda file: publish_json(file, {}),
    "commits of a table": commits_of,
    "newest batch": read_last_commit,
    "savepoints": lambda folder: list_savepoints(folder, 0),
    "one savepoint": lambda folder: savepoint_of(folder, SAVEPOINT, 0),
    "a manifest": lambda folder: read_manifest(SavepointHome.of(folder, SAVEPOINT)),
    "readers of a savepoint": lambda folder: readers_of(SavepointHome.of(folder, SAVEPOINT)),
    "a reader": read_use_mark,
    "digests": lambda folder: digest_files(SavepointHome.of(folder, SAVEPOINT)),
}
pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=[AWAY, S3], scope="module")
def away(request: pytest.FixtureRequest) -> Iterator[DataPath]:
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1",
        }.items():  # fmt: skip
            environment.setenv(name, value)
        S3FileSystem.clear_instance_cache()  # a client keeps the address that it was made with
        yield folder_at(str(request.param))
        S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize("reader", READERS)
def test_a_store_that_is_away_is_never_taken_for_an_empty_one(away: DataPath, reader: str) -> None:
    with pytest.raises(StoreUnreachable) as raised:
        READERS[reader](away)
    assert str(raised.value.path).startswith(uri_of(away))


@pytest.fixture
def stage(tmp_path: Path, away: DataPath) -> Stage:
    return Stage.set_up(tmp_path, clicks_spec() | {"sink": {"path": uri_of(away)}})


def test_a_driver_leaves_the_tables_to_spark(stage: Stage) -> None:
    TableCheck(stage.stream_home, stage.spec(), None, accepts=False, say=print).check_files()


def test_a_plan_goes_without_the_columns_of_the_table(stage: Stage) -> None:
    assert sink_columns(stage.stream_home, stage.spec()) == SinkColumns()


def test_a_look_for_other_writers_is_put_off(stage: Stage, away: DataPath) -> None:
    said: list[str] = []
    ChangeWatch(stage.stream_home, SAVEPOINT, {"sessions": uri_of(away)}, said.append).look()
    assert said == []


def test_a_history_is_refused(stage: Stage, away: DataPath) -> None:
    with pytest.raises(StoreUnreachable):
        find_in_folder(away, stage.spec().source, "--history")


def test_a_state_is_refused(away: DataPath) -> None:
    with pytest.raises(StoreUnreachable):
        state_at(f"checkpoint:{uri_of(away)}", None, "--history")


@pytest.mark.parametrize(
    ("java", "number"),
    [
        ("security.AccessControlException", errno.EACCES),
        ("hdfs.protocol.DSQuotaExceededException", errno.EDQUOT),
        ("hdfs.server.namenode.SafeModeException", errno.EIO),
    ],
)
def test_a_refusal_by_a_name_node_is_told_apart_from_silence(java: str, number: int) -> None:
    said = RuntimeError(
        f'RPCError("org.apache.hadoop.{java}", "inode=\\"/lake\\": no\\n\\tat org.apache.hadoop.Server")'
    )
    error = translate_to_os_error(said)
    assert (error.errno, error.strerror) == (number, f'{java.rpartition(".")[2]}: inode=\\"/lake\\": no')


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (ReadTimeoutError(endpoint_url="http://127.0.0.1:1"), True),  # an OSError without a number
        (TimeoutError(), True),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), True),
        (OSError("tcp connect error (os error 111)"), True),
        (OSError("write error (os error 13)"), False),
        (FileNotFoundError("lake/x"), False),
        (PermissionError("Forbidden"), False),
        (OSError(errno.EDQUOT, "DSQuotaExceededException"), False),
    ],
)
def test_an_error_of_a_client_is_judged_by_its_number_or_its_class(error: OSError, *, away: bool) -> None:
    assert is_store_away(error) is away


def test_a_folder_that_cannot_be_listed_is_not_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec's own walk omits such a folder, also below one for which it is told to raise."""
    folder, listed = UPath("memory://forbidden/checkpoint"), MemoryFileSystem.ls

    def list_other(system: MemoryFileSystem, path: str, **options: object) -> object:
        if path.endswith("/state"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return listed(system, path, **options)

    for name in ("offsets/0", "state/0/schema"):
        write_data_text(folder / name, "v1")
    monkeypatch.setattr("sessionizer.home.data_files.ON_HADOOP", ("memory",))
    assert set(files_of(folder).sizes) == {"offsets/0", "state/0/schema"}
    monkeypatch.setattr(MemoryFileSystem, "ls", list_other)
    with pytest.raises(PermissionError):
        files_of(folder)
