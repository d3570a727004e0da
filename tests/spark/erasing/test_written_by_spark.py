"""Tables that RocksDB itself writes, and streams of Spark's own codecs, are read whole or told to be unreadable."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sessionizer.core.wire.codec import encode
from sessionizer.erasing.search import Occurrences, search

KEYS = [f"user-{number:04d}" for number in range(400)]
VALUE = "user-0123"


def searched(folder: Path) -> dict[str, Occurrences]:
    return {each.decoded_by: each for each in search([folder], [VALUE, "user-01234", "user-012"])}


@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("compression", ["NO", "SNAPPY", "LZ4", "LZ4HC", "ZSTD"])
def test_a_table_of_rocksdb_is_read_whole(spark: SparkSession, tmp_path: Path, compression: str, version: int) -> None:
    rocks: Any = spark.sparkContext._jvm.org.rocksdb  # type: ignore[union-attr]
    rocks.RocksDB.loadLibrary()
    table = rocks.BlockBasedTableConfig().setFormatVersion(version).setBlockSize(1024)
    codec = getattr(rocks.CompressionType, f"{compression}_COMPRESSION")
    options = rocks.Options().setTableFormatConfig(table).setCompressionType(codec)
    writer = rocks.SstFileWriter(rocks.EnvOptions(), options)
    writer.open(str(tmp_path / "000001.sst"))
    for number, key in enumerate(KEYS):
        before = KEYS[number - 1]
        writer.put(key.encode(), f'{{"key":"{key}"}} '.encode() + encode(pa.table({"key": [key, before]})))
    writer.finish()
    found = searched(tmp_path)
    assert [each.unreadable for each in found.values()] == [None] * len(found)
    assert found["sst"].counts == {VALUE: 2}
    assert found["sst > arrow"].counts == {VALUE: 2}


@pytest.mark.parametrize(("codec", "way"), [("LZ4", "lz4 blocks"), ("ZStd", "zstd"), ("Snappy", None), ("LZF", None)])
def test_a_changelog_is_read_whole_or_unreadable(
    spark: SparkSession, tmp_path: Path, codec: str, way: str | None
) -> None:
    java: Any = spark.sparkContext._jvm
    written = java.java.io.ByteArrayOutputStream()
    made = getattr(java.org.apache.spark.io, f"{codec}CompressionCodec")(spark.sparkContext._jsc.sc().conf())
    stream = made.compressedOutputStream(written)
    for key in KEYS * 5:
        stream.write(len(key).to_bytes(4) + key.encode() + encode(pa.table({"key": [key] * 20})))
    stream.close()
    content = bytes(written.toByteArray())
    (tmp_path / "7_id.changelog").write_bytes(content)
    found = searched(tmp_path)
    if way is None:
        assert found["raw"].unreadable is not None
        return
    assert [each.unreadable for each in found.values()] == [None] * len(found)
    assert found[way].counts == {VALUE: 5}
    assert found[f"{way} > arrow"].counts == {VALUE: 100}
    (tmp_path / "7_id.changelog").write_bytes(content[:-30])
    assert any(each.unreadable for each in searched(tmp_path).values())
