"""How much a batch may bring where the spec does not say."""

from __future__ import annotations

from typing import Any

import pytest

from sessionizer.spark.ingest.source import COMPRESSED_BYTES, RECORDS, TEXT_BYTES, batch_limits
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource, SocketSource


def files(encoding: Any, **options: str) -> FilesSource:
    columns = None if encoding == "text" else "a string"
    return FilesSource(format="files", path="feed", encoding=encoding, columns=columns, options=options)


def kafka(**options: str) -> KafkaSource:
    return KafkaSource(format="kafka", bootstrap_servers="b:1", topic="t", encoding="text", options=options)


@pytest.mark.parametrize("encoding", ["json", "csv", "text"])
def test_files_of_text_are_limited_by_their_bytes(encoding: str) -> None:
    assert batch_limits(files(encoding)) == {"maxBytesPerTrigger": str(TEXT_BYTES)}


def test_compressed_files_hold_more_events_in_a_byte() -> None:
    assert batch_limits(files("parquet")) == {"maxBytesPerTrigger": str(COMPRESSED_BYTES)}
    assert batch_limits(DeltaSource(format="delta", path="t")) == {"maxBytesPerTrigger": str(COMPRESSED_BYTES)}


def test_kafka_is_limited_by_its_records() -> None:
    assert batch_limits(kafka()) == {"maxOffsetsPerTrigger": str(RECORDS)}


@pytest.mark.parametrize("option", ["maxFilesPerTrigger", "maxbytespertrigger"])
def test_a_limit_of_the_spec_is_the_only_one(option: str) -> None:
    """Spark refuses a file source with two."""
    assert batch_limits(files("json", **{option: "10"})) == {}
    assert batch_limits(DeltaSource(format="delta", path="t", options={option: "10"})) == {}
    assert batch_limits(kafka(maxOffsetsPerTrigger="10")) == {}


def test_a_socket_has_no_limit() -> None:
    assert batch_limits(SocketSource(format="socket", host="h", port=1)) == {}
