"""Log of the key group of one key, read from the files of a checkpoint without Spark.

A list is its values one after the other, each behind its length (4 bytes). A value is Spark's ``UnsafeRow`` behind one
byte, its version. Spark 4.1 and before put a comma between two values: that form, as any other, is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import xxhash

from sessionizer.checkpoint.files import Files, chains_of_batch, files_of
from sessionizer.checkpoint.rocksdb_table import KeyChange, find_in_changelog, find_in_table
from sessionizer.checkpoint.state_files import list_shared_files, read_metadata
from sessionizer.core.wire.schema import group_labels, spark_hash
from sessionizer.home.json_record import parse_json
from sessionizer.home.roots import DataPath

_SEED: Final = 42
_KEY: Final = struct.Struct("<HBqii")
"""Key of a state: its variable, the version of the row, no column is null, one INT, padding."""
_PLACE: Final = struct.Struct("<II")
_NO_NULLS: Final = 8


def group_of_key(key: str, key_groups: int) -> int:
    """Return the number of the key group of ``key``, as Spark's ``xxhash64`` gives it (``spark.query.assembly``)."""
    hashed = xxhash.xxh64_intdigest(key.encode(), seed=_SEED)
    return (hashed - (hashed >> 63 << 64)) % key_groups


def read_log_of_key(checkpoint: DataPath, batch_id: int, key_groups: int, key: str) -> tuple[int, list[bytes]]:
    """Return the group of ``key`` and its blobs after the batch. Raises ValueError, KeyError, OSError."""
    group = group_of_key(key, key_groups)
    label = group_labels(key_groups)[group]
    files = files_of(checkpoint)
    chains = list(chains_of_batch(checkpoint, files, batch_id))
    chain = chains[int(spark_hash(np.array([label], np.int32))[0]) % len(chains)]
    if chain.lacking or not chain.names[0].endswith(".zip"):
        raise ValueError(f"the state lacks {(*chain.lacking, 'a snapshot')[0]}")
    snapshot, *since = chain.names
    name = _KEY.pack(_number_of_log(files, snapshot), 0, 0, int(label), 0)
    return group, list(_blobs(_last_value(_changes(files, snapshot, since, name))))


def _number_of_log(files: Files, snapshot: str) -> int:
    """Return the number of the list that has a group's blobs, named ``log`` by ``spark.query.processor``."""
    version, _, about = read_metadata(files, snapshot).decode().partition("\n")
    if version != "v1":
        raise ValueError(f"a snapshot of version {version[:20]!r}, for which there is no decoder")
    match parse_json(about):
        case {"columnFamilyMapping": {"log": int(number)}} if 0 <= number < 2**16:
            return number
    raise ValueError("a snapshot that does not number its variables")


def _changes(files: Files, snapshot: str, since: Iterable[str], key: bytes) -> Iterator[tuple[KeyChange, bytes]]:
    tables = (files.read(table) for table, _ in list_shared_files(files, snapshot))
    found = [each for table in tables for each in find_in_table(table, key)]
    yield from ((change, value) for _, change, value in sorted(found, key=lambda each: each[0]))
    for log in since:
        yield from find_in_changelog(files.read(log), key)


def _last_value(changes: Iterable[tuple[KeyChange, bytes]]) -> bytes:
    parts: list[bytes] = []
    for change, value in changes:
        if change is not KeyChange.OPERAND:
            parts.clear()
        if change is not KeyChange.END:
            parts.append(value)
    return b"".join(parts)


def _blobs(values: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(values):
        row = at + 4
        after = row + int.from_bytes(values[at:row], "little")
        if after > len(values) or after < row + 1 + _NO_NULLS + _PLACE.size or values[row]:
            raise ValueError("a list of another form")
        size, place = _PLACE.unpack_from(values, row + 1 + _NO_NULLS)
        if row + 1 + place + size > after:
            raise ValueError("a list of another form")
        yield values[row + 1 + place : row + 1 + place + size]
        at = after
