"""Options of Hadoop's that a reader gets: a store's client keeps them for the life of a JVM."""

from __future__ import annotations

import pytest

from sessionizer.spark.ingest.file_source.files import checksum_options


@pytest.mark.parametrize("place", ["/data/feed", "feed", "file:/data/feed/a.json", "file:///data/feed/a%3Ab.json"])
def test_local_files_are_read_checksum_options(place: str) -> None:
    assert checksum_options(place)["fs.file.impl"].endswith("RawLocalFileSystem")


@pytest.mark.parametrize(
    "place", ["hdfs://namenode:8020/feed", "hdfs:///feed", "s3a://bucket/feed", "abfss://a@b/feed"]
)
def test_a_reader_of_a_store_leaves_its_client_as_it_is(place: str) -> None:
    assert checksum_options(place) == {}
