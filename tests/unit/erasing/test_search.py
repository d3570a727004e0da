"""A value is found in every kind of file, as often as it is there, and a longer one is none."""

import bz2
import gzip
import html
import io
import json
import lzma
import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessionizer.core.wire.codec import encode
from sessionizer.erasing.search import NAME, Occurrences, search

GOLDEN = Path(__file__).parents[2] / "golden" / "releases"
Texts = Sequence[str]


def content_of(sink: pa.BufferOutputStream) -> bytes:
    content: bytes = sink.getvalue().to_pybytes()
    return content


def parquet(column: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c0": column}), sink, compression="zstd", write_statistics=False)
    return content_of(sink)


def blob(texts: Texts) -> bytes:
    return encode(pa.table({"key": pa.array(texts, pa.string()), "n": pa.array(range(len(texts)))}))


def arrow_file(texts: Texts) -> bytes:
    table = pa.table({"key": pa.array(texts).dictionary_encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write(table)
    return content_of(sink)


def lines(texts: Texts) -> bytes:
    return "\n".join(texts).encode()


def zipped(content: bytes, name: str) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return sink.getvalue()


def tarred(content: bytes, name: str) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        about = tarfile.TarInfo(name)
        about.size = len(content)
        archive.addfile(about, io.BytesIO(content))
    return sink.getvalue()


def by_arrow(codec: str) -> Callable[[Texts], bytes]:
    def compress(texts: Texts) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(lines(texts))
        return content_of(sink)

    return compress


def java_text(texts: Texts) -> bytes:
    """The form in which Java writes texts: the tag of the next follows each."""
    return b"\xac\xed\0\5" + b"".join(b"t" + len(each.encode()).to_bytes(2) + each.encode() for each in texts)


NESTED = pa.struct({"m": pa.map_(pa.string(), pa.int8())})
KINDS: dict[str, tuple[str, Callable[[Texts], bytes]]] = {
    "a.log": ("raw", lines),
    "a.json": ("raw", lambda texts: "\n".join(json.dumps({"k": {"raw": json.dumps(text)}}) for text in texts).encode()),
    "a.jsonl": ("raw", lambda texts: "\n".join(json.dumps([t], ensure_ascii=False) for t in texts).encode()),
    "a.html": ("raw", lambda texts: "".join(f"<td>{html.escape(text)}</td>" for text in texts).encode()),
    "a.repr": ("raw", lambda texts: "".join(f"key {text!r} takes 2 s\n" for text in texts).encode()),
    "a.url": ("raw", lambda texts: "&".join(f"k={quote(text, safe='')}" for text in texts).encode()),
    "a.ser": ("raw", java_text),
    "text.parquet": ("parquet", lambda texts: parquet(pa.array(texts))),
    "bytes.parquet": ("parquet", lambda texts: parquet(pa.array([text.encode() for text in texts]))),
    "nested.parquet": (
        "parquet",
        lambda texts: parquet(pa.array([[{"m": [(text, 1)]}] for text in texts], pa.list_(NESTED))),
    ),
    "blob.parquet": ("parquet > arrow", lambda texts: parquet(pa.array([blob([text]) for text in texts]))),
    "a.blob": ("arrow", lambda texts: b"begin" + blob(texts)),
    "a.arrow": ("arrow", arrow_file),
    "a.gz": ("gzip", lambda texts: gzip.compress(lines(texts))),
    "a.xz": ("xz", lambda texts: lzma.compress(lines(texts))),
    "a.bz2": ("bz2", lambda texts: bz2.compress(lines(texts))),
    "a.zst": ("zstd", by_arrow("zstd")),
    "a.lz4": ("lz4", by_arrow("lz4")),
    "a.zip": ("zip > arrow", lambda texts: zipped(blob(texts), "x.blob")),
    "a.tar.gz": ("gzip > tar > parquet", lambda texts: tarred(parquet(pa.array(texts)), "x.parquet")),
}
ESCAPE_LETTERS = {"a.json", "a.url"}


def searched(folder: Path, *values: str) -> list[Occurrences]:
    return list(search([folder], values))


@settings(max_examples=30)
@example(value="zq7000\\", times=0, others=["{}x"])
@example(value="zq7000\\\\", times=2, others=["{}x", "{}é"])
@given(
    value=st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=4, max_size=60).map(
        "zq7".__add__
    ),
    times=st.integers(0, 5),
    others=st.lists(st.sampled_from(["{}x", "{}_", "x{}", "{}é", "7{}", "an other"]), max_size=5),
)
@pytest.mark.parametrize("name", list(KINDS))
def test_a_planted_value_is_found_with_its_exact_count(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: str, times: int, others: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("planted")
    way, write = KINDS[name]
    others = [other for other in others if other.isascii() or name not in ESCAPE_LETTERS]
    # a letter before a value of so many bytes is its length in a footer of Parquet, so that one counts
    others = [other for other in others if ord(other[0]) != len(value.encode())]
    texts = [value] * times + [other.format(value) for other in others]
    (folder / name).write_bytes(write(texts))
    found = {each.decoded_by: each for each in searched(folder, value)}
    assert [each.unreadable for each in found.values()] == [None] * len(found)
    counts = found[way].counts if way in found else {}  # without texts there is no blob
    assert counts == ({value: times} if times else {})


def counted(folder: Path, *values: str) -> dict[str, int]:
    return dict(sum((Counter(each.counts) for each in searched(folder, *values)), Counter()))


def test_a_value_that_begins_another_is_not_found_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(parquet(pa.array(["user-12", "user-12", "xuser-1", "user-1_"])))
    assert counted(tmp_path, "user-1", "user-12")["user-12"] >= 2
    assert "user-1" not in counted(tmp_path, "user-1", "user-12")


@pytest.mark.parametrize("value", ["k" * 17, "k" * 34])
def test_a_quote_in_bytes_is_no_length(tmp_path: Path, value: str) -> None:
    (tmp_path / "a.bin").write_bytes(b'\0{"key": "' + value.encode() + b'x"}\0')
    assert counted(tmp_path, value) == {}


@pytest.mark.parametrize(
    "text", [r"\nuser-1", r"\u0009user-1\n", "%20user-1%20", "k%3Duser-1", "%22user-1", '"user-1"']
)
def test_what_is_escaped_before_a_value_is_no_letter(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    assert counted(tmp_path, "user-1") == {"user-1": 1}


def test_the_name_of_a_file_is_searched_too(tmp_path: Path) -> None:
    (tmp_path / "key=a%20b").mkdir()
    (tmp_path / "key=a%20b" / "empty").touch()
    found = {each.decoded_by: each.counts for each in searched(tmp_path, "a b")}
    assert found == {NAME: {"a b": 1}, "raw": {}}


@pytest.mark.parametrize("end", ["", "\x7f", "\U0010ffff"])
def test_a_long_value_is_found_as_delta_cuts_it_in_statistics(tmp_path: Path, end: str) -> None:
    value = "4f1c2d3e-aaaa-4bbb-8ccc-0123456789ab"
    stats = json.dumps({"minValues": {"key": value[:32] + end}}, ensure_ascii=False)
    (tmp_path / "0.json").write_text(json.dumps({"add": {"stats": stats}}, ensure_ascii=False))
    (tmp_path / "0.checkpoint.parquet").write_bytes(parquet(pa.array(["a", value[:32] + end, "z"])))
    assert {each.decoded_by for each in searched(tmp_path, value) if each.counts} == {"raw", "parquet"}
    assert counted(tmp_path, value[:31] + "0" + value[32:]) == {}


def test_digits_are_found_as_a_text_and_not_as_a_number(tmp_path: Path) -> None:
    value = "1234567"
    numbers = {"size": 1234567, "key": "a 1234567", "keys": ["1234567"], "stats": json.dumps({"rows": 1234567})}
    (tmp_path / "1234567").mkdir()
    (tmp_path / "1234567" / "a.json").write_text(json.dumps(numbers))
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "0.json").write_text(json.dumps(numbers | {"maxValues": json.dumps({"key": value})}))
    (tmp_path / "numbers.parquet").write_bytes(parquet(pa.array([1234567, 12345678, None])))
    (tmp_path / "texts.parquet").write_bytes(parquet(pa.array(['{"u": 1234567}', "1234567 x", None])))
    (tmp_path / "driver.log").write_text("key 1234567\n")
    found = {each.file: each.counts for each in searched(tmp_path, value) if each.decoded_by in {"raw", "parquet"}}
    assert found["1234567/a.json"] == {value: 3}, "a number in JSON within JSON is taken for a text"
    assert found["_delta_log/0.json"] == {value: 2}
    assert (found["numbers.parquet"], found["driver.log"]) == ({}, {value: 1})
    assert found["texts.parquet"] == {value: 2}


def test_a_key_is_found_in_a_real_state_of_rocksdb(tmp_path: Path) -> None:
    for name in ("native", "canonical"):
        with tarfile.open(GOLDEN / "0.2.0" / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path / name)  # noqa: S202  made by us
    events = pa.concat_tables(map(pq.read_table, tmp_path.glob("canonical/**/open_events/*.parquet")))
    keys = set(events.column("key").to_pylist())
    found = list(search([tmp_path / "native", tmp_path / "canonical"], [*keys, "acme-00000"]))
    assert [each for each in found if each.unreadable] == []
    for way, root in (("sst > arrow", "native"), ("parquet > arrow", "canonical"), ("parquet", "canonical")):
        ours = [each for each in found if each.decoded_by == way and each.root == str(tmp_path / root)]
        assert {key for each in ours for key in each.counts} == keys, way
    assert any(each.counts for each in found if each.decoded_by == "lz4 blocks > arrow")


def real_files(tmp_path: Path) -> dict[str, bytes]:
    with tarfile.open(GOLDEN / "0.2.0" / "native.tar.xz") as archive:
        archive.extractall(tmp_path / "native")  # noqa: S202  made by us
    real = [next((tmp_path / "native").rglob(f"*.{kind}")) for kind in ("sst", "changelog", "zip")]
    # a file of Arrow is read without its footer
    made = {
        name: KINDS[name][1](["user-1", "user-2"] * 50)
        for name in KINDS
        if not name.endswith((".log", ".json", ".jsonl", ".html", ".repr", ".url", ".ser", ".arrow"))
    }
    return {file.name: file.read_bytes() for file in real} | made


def test_a_cut_file_is_unreadable(tmp_path: Path) -> None:
    files = real_files(tmp_path)
    for name, content in files.items():
        for end in (len(content) // 2, len(content) - 1):
            folder = tmp_path / f"{name}-{end}"
            folder.mkdir()
            (folder / name).write_bytes(content[:end])
            assert any(each.unreadable for each in searched(folder, "user-1")), (name, end)


def test_what_cannot_be_opened_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "events.avro").write_bytes(b"Obj\x01...")
    unreadable = {each.file for each in searched(tmp_path, "user-1") if each.unreadable}
    assert unreadable == {"gone", "folder", "pipe", "events.avro"}
    assert [each.unreadable is not None for each in searched(tmp_path / "absent", "user-1")] == [True]


def test_an_empty_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="empty"):
        searched(tmp_path, "user-1", "")
