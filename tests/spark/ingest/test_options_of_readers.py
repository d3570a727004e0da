"""Every option that the readers of the pinned Spark, Delta and Kafka source know has its row in our table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer.spark.internals.java_class import java_class
from sessionizer.stream_spec.document.reader_options import find_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = "org.apache.spark.sql.execution"
OF_WRITERS = """
    codec compression dataChange dropFieldIfAllNull escapeQuotes extension ignoreNullFields maxRecordsPerFile
    mergeSchema optimizeWrite overwriteSchema parquet.compression parquet.writer.version partitionOverwriteMode pretty
    quoteAll replaceOn replaceUsing replaceWhere sortKeys spark.sql.parquet.outputTimestampType targetAlias topic
    txnAppId txnVersion useNullIntolerantEqualityWithDPO userMetadata writeNonAsciiCharacterAsCodePoint
    writePartitionColumns
"""
OF_READERS_THAT_FIND_COLUMNS = """
    basePath inferSchema inferTimestamp preferDate prefersDecimal primitivesAsString samplingRatio singleVariantColumn
"""
OF_PARTS_THAT_A_STREAM_DOES_NOT_USE = """
    _mockSystemTime columnPruning inputBufferSize useUnsafeRow wholetext
    json.charset json.encoding json.multiLine text.encoding
"""
WITHOUT_EFFECT = frozenset(f"{OF_WRITERS} {OF_READERS_THAT_FIND_COLUMNS} {OF_PARTS_THAT_A_STREAM_DOES_NOT_USE}".split())


def module(spark: SparkSession, name: str) -> Any:
    """The Scala object of a class."""
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    return java_class(spark, "java.lang.Class").forName(name, True, loader)


def declared(spark: SparkSession, name: str) -> set[str]:
    """The options of a parser, which declares them."""
    options = module(spark, f"{name}$").getField("MODULE$").get(None).getAllOptions().toList()
    return {str(options.apply(place)) for place in range(options.size())}


def constants(spark: SparkSession, name: str, fits: str) -> set[str]:
    """The texts of a Scala object's fields whose names fit."""
    kind = module(spark, f"{name}$")
    companion = kind.getField("MODULE$").get(None)
    found = set()
    for field in kind.getDeclaredFields():
        if re.fullmatch(fits, field.getName()) and str(field.getType().getName()) == "java.lang.String":
            field.setAccessible(True)
            found.add(str(field.get(companion)))
    return found


def known_options(spark: SparkSession, source: str) -> set[str]:
    match source:
        case "csv" | "json":
            return declared(spark, f"org.apache.spark.sql.catalyst.{source}.{source.upper()}Options")
        case "text" | "parquet":
            return declared(spark, f"{FILES}.datasources.{source}.{source.capitalize()}Options")
        case "folder":
            stream = module(spark, f"{FILES}.streaming.runtime.FileStreamOptions").getDeclaredFields()
            fields = {re.sub("Ms$", "", str(field.getName())) for field in stream}
            names = {name for name in fields if "$" not in name} - {"parameters", "optionMapWithoutPath"}
            corrupt = constants(spark, "org.apache.spark.sql.catalyst.FileSourceOptions", ".*")
            return names | corrupt | declared(spark, f"{FILES}.datasources.FileIndexOptions")
        case "delta":
            values = "PARTITION_OVERWRITE_MODE_.+|REPLACE_USING_INTERNAL.*|.*_DEFAULT"
            return constants(spark, "org.apache.spark.sql.delta.DeltaOptions", rf"(?!{values})[A-Z_]+")
        case _:
            fits = r"[A-Z_]+_KEY|.*\$\$[A-Z_]+|[A-Z_]+(PREFIX|TRIGGER|DELAY|RETRY|MS|TIMEOUT|HEADERS|TIME)"
            name = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
            return constants(spark, name, rf"(?!DEFAULT_)({fits})")


@pytest.mark.parametrize("source", ["csv", "json", "text", "parquet", "folder", "delta", "kafka"])
def test_each_option_has_its_row(spark: SparkSession, source: str) -> None:
    known = known_options(spark, source)
    assert len(known) > 3, known
    reader = "csv" if source == "folder" else source
    nameless = {name for name in known if not {name, f"{source}.{name}"} & WITHOUT_EFFECT}
    nameless = {name for name in nameless if find_options(name, reader) is None}
    assert not nameless, "say in reader_options.py what a stream does with them"
