"""Checks whether a file of a state is whole, by its content and by the checksums beside it."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Final

from sessionizer.inspection.checksums import hadoop_says, spark_says
from sessionizer.inspection.lz4_blocks import MAGIC, wrong_with_blocks
from sessionizer.inspection.state_files import CHECKSUM

if TYPE_CHECKING:
    from sessionizer.inspection.files import Files

_SST_MAGIC: Final = bytes.fromhex("f7cff485b741e288")
"""Last bytes of a table of RocksDB."""


def hadoop_file(name: str) -> str:
    """Return the name of Hadoop's checksums of a file."""
    folder, slash, own = name.rpartition("/")
    return f"{folder}{slash}.{own}.crc"


def wrong_with(files: Files, name: str) -> str | None:
    """Return the problem of an existing file. None if it looks whole. Raises OSError.

    A damaged checksum is ignored here.
    """
    content = files.read(name)
    if not content:
        return "it is empty"
    checked = False
    for checksum, says in ((f"{name}{CHECKSUM}", spark_says), (hadoop_file(name), hadoop_says)):
        if checksum not in files.sizes:
            continue
        try:
            wrong = says(content, files.read(checksum))
        except ValueError:
            continue
        if wrong is not None:
            return wrong
        checked = True
    return _wrong_within(name, content, checked=checked)


def wrong_checksum(files: Files, name: str) -> str | None:
    """Return the problem of a checksum of Spark's itself. Only Hadoop's checksum shows a flipped bit."""
    content = files.read(name)
    try:
        spark_says(b"", content)
        hidden = hadoop_file(name)
        return hadoop_says(content, files.read(hidden)) if hidden in files.sizes else None
    except ValueError as error:
        return str(error)


def _wrong_within(name: str, content: bytes, *, checked: bool) -> str | None:
    if name.endswith(".zip"):
        return _wrong_zip(content)
    if name.endswith(".sst"):
        return None if content.endswith(_SST_MAGIC) else "it does not end as a table of RocksDB does: it is cut"
    # With another codec only the checksum shows damage.
    return wrong_with_blocks(content, checked=not checked) if content.startswith(MAGIC) else None


def _wrong_zip(content: bytes) -> str | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            bad = archive.testzip()
            archive.read("metadata")
    except (zipfile.BadZipFile, KeyError, OSError, EOFError, NotImplementedError, ValueError) as error:
        return f"it is no archive of RocksDB: cut, or changed ({error})"
    except Exception as error:  # noqa: BLE001  zlib.error and whatever else a changed archive makes of itself
        return f"it cannot be unpacked ({error})"
    return None if bad is None else f"{bad} in it was changed"
