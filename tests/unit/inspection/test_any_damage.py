"""Whatever a disk makes of a checkpoint's files, the inspection ends with findings, never with a traceback."""

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.checkpoint.files import hadoop_file, hadoop_says
from sessionizer.cli.inspect.words import finding_lines, inspection_lines
from sessionizer.inspection.checkpoint_read import read_checkpoint
from sessionizer.inspection.inspect import Inspection, damages
from support.checkpoints.fabricated_checkpoints import Held, fabricated
from support.fixtures.reviewed import Reviewed


def checksums_of(content: bytes, step: int = 512) -> bytes:
    parts = (content[start : start + step] for start in range(0, len(content), step))
    return b"crc\x00" + struct.pack(">I", step) + b"".join(struct.pack(">I", zlib.crc32(part)) for part in parts)


@cache
def whole(made: int) -> Held:
    """Make a checkpoint of a local disk: checksums beside every file, a snapshot of RocksDB and a table."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("metadata", "v1\n{}")
    contents = dict(fabricated(3, format=made).contents)
    contents["state/0/1/2_0.zip"] = archive.getvalue()
    contents["state/0/1/SSTs/000001.sst"] = b"rows" + bytes.fromhex("f7cff485b741e288")
    return Held({**contents, **{hadoop_file(name): checksums_of(content) for name, content in contents.items()}})


def damaged(draw: Callable[[st.SearchStrategy[int]], int], content: bytes, garbage: bytes) -> bytes:
    """Cut it, empty it, or write garbage over a part of it, at a random place."""
    start = draw(st.integers(0, len(content)))
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return content[:start]
    if kind == 1:
        return garbage
    if kind == 2:
        return content + garbage
    if kind == 3:
        return content[start:]
    return content[:start] + garbage + content[start + len(garbage) :]


ODD = (b"v1", b"v1\n{}", b"null", b"[]", b'"x"', b"-1", b"1e400", b"{}", b"9" * 20, b"9" * 5000, b"[" * 5000)


@cache
def values_of(content: bytes) -> tuple[tuple[int, int], ...]:
    """Find where each value of JSON begins and ends."""
    values = re.finditer(rb'(?<=[:\[,])(?:"[^"]*"|[\w.+-]+|\[[^\[\]]*\]|\{[^{}]*\})', content)
    return tuple(match.span() for match in values)


def require_findings(held: Held, *, deep: bool) -> None:
    found = read_checkpoint(held.files(), deep=deep)
    inspection = Inspection(found, tuple(damages(found)))
    json.dumps(inspection.to_json())
    assert [*inspection_lines(inspection, None, settings=True), *finding_lines(inspection.findings)]


@settings(max_examples=100)
@given(st.sampled_from([1, 2]), st.booleans(), st.data())
def test_an_inspection_never_fails(made: int, deep: bool, data: st.DataObject) -> None:
    contents = dict(whole(made).contents)
    for name in data.draw(st.lists(st.sampled_from(sorted(contents)), min_size=1, max_size=4, unique=True)):
        garbage = data.draw(st.one_of(st.binary(max_size=24), st.sampled_from(ODD)))
        contents[name] = damaged(data.draw, contents[name], garbage)
    require_findings(Held(contents), deep=deep)


@settings(max_examples=100)
@given(st.sampled_from([1, 2]), st.booleans(), st.data())
def test_nor_does_it_where_json_says_something_else(made: int, deep: bool, data: st.DataObject) -> None:
    plain = {name: content.replace(b": ", b":") for name, content in whole(made).without_hidden().contents.items()}
    told = sorted(name for name, content in plain.items() if values_of(content))
    for name in data.draw(st.lists(st.sampled_from(told), min_size=1, max_size=2, unique=True)):
        start, end = data.draw(st.sampled_from(values_of(plain[name])))
        plain[name] = plain[name][:start] + data.draw(st.sampled_from(ODD)) + plain[name][end:]
    require_findings(Held(plain), deep=deep)


@pytest.mark.parametrize("length", [0, 3, 8, 9, 11, 12, 13])
def test_checksums_that_were_cut_are_told_or_are_none(length: int, reviewed: Reviewed) -> None:
    content = b"x" * 700
    checksums = checksums_of(content)[:length]
    if length < 8:
        with pytest.raises(ValueError, match="no file of checksums"):
            hadoop_says(content, checksums)
    else:
        reviewed(hadoop_says(content, checksums) or "")


def test_checksums_of_an_empty_file_fit() -> None:
    assert hadoop_says(b"", checksums_of(b"")) is None
    assert hadoop_says(b"x" * 700, checksums_of(b"x" * 700)) is None
