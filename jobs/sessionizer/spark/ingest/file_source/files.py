"""Files as the rows that a stream's source has, a whole folder of them or one alone."""

from __future__ import annotations

import operator
import re
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.spark.ingest.file_source.csv_lines import csv_options, has_lines, parse_csv_lines
from sessionizer.spark.ingest.file_source.lines import (
    CORRUPT,
    FAULT,
    POSITION,
    RAW,
    drop_blank_lines,
    parse_column_schema,
    parse_lines,
)
from sessionizer.spark.ingest.file_source.times_of_day import find_in_folders, replace_timestamps
from sessionizer.stream_spec.document.reader_options import find_options
from sessionizer.stream_spec.sql_guard import TIME_OF_DAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from sessionizer.stream_spec.document.source import FilesSource

Reader: TypeAlias = Any
"""A DataStreamReader or a DataFrameReader: PySpark has no common type for the two."""

_LINE_SEPARATOR: Final = "linesep"
_NEVER_TOO_OLD: Final = {"maxFileAge": "36500d"}
"""By default Spark skips a file that is a week older than the newest it knows, without a warning."""
_WITHOUT_CHECKSUMS: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
_MORE_THAN_ITSELF: Final = re.compile(r"([\\\[\]{}*?])")
_SUMMARY: Final = r"/_(?:common_)?metadata[^/]*$"
"""Pattern of a file that tells of other Parquet files. Spark lists it, unlike other files with such a name."""
_OF_TIMESTAMPS: Final = frozenset({"timestampformat", "enabledatetimeparsingfallback", "locale", "timezone"})
_ONE: Final = "one"
_NO_TEXT: Final = "\x01"
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def read_files(reader: Reader, source: FilesSource, path: str, max_event_bytes: int) -> DataFrame:
    """Read the files at ``path`` (see ``literal``) as those of ``source``.

    Raises InvalidSpec for invalid columns.
    """
    reader_options = {name: value for name, value in source.options.items() if _is_of_folder(name, source.encoding)}
    parser_options = {name: value for name, value in source.options.items() if name not in reader_options}
    reader = reader.options(**_NEVER_TOO_OLD).options(**checksum_options(path)).options(**reader_options)
    of_lines = {name: value for name, value in parser_options.items() if name.lower() == _LINE_SEPARATOR}
    if source.encoding in ("text", "json"):
        lines = drop_blank_lines(_lines(reader.options(**of_lines), path), source.encoding)
        others = {name: value for name, value in parser_options.items() if name not in of_lines}
        return parse_lines(lines, source.encoding, source.columns, others, max_event_bytes)
    columns = parse_column_schema(source.columns)
    if source.encoding == "csv":
        options = csv_options(parser_options)
        if not has_lines(options):
            return _csv(reader, columns, options, path, max_event_bytes)
        return parse_csv_lines(_lines(reader.options(**of_lines), path), columns, options, max_event_bytes)
    rows: DataFrame = reader.format(source.encoding).schema(columns).options(**parser_options).load(path)
    rows = rows.where(~F.rlike(_file(), F.lit(_SUMMARY)))
    names = [F.col(f"`{name}`") for name in columns.names]
    # decodes each value outside of what makes a failed expression null. The remainder is 0 or 1
    touched = F.pmod(F.xxhash64(*(_hashable(field) for field in columns)), F.lit(2)) > 1
    fault = F.when(touched | find_in_folders(columns), F.lit(QuarantineReason.WRONG_TYPE.value))
    return rows.select(*names, F.lit(None).cast("string").alias(RAW), _file().alias(POSITION), fault.alias(FAULT))


def _hashable(field: StructField) -> Column:
    """Return a column as Spark can hash it, which it does with no map and no variant."""
    column, kind = F.col(f"`{field.name}`"), field.dataType.simpleString()
    return F.to_json(F.struct(column)) if "map<" in kind or "variant" in kind else column


def is_summary(source: FilesSource, uri: str) -> bool:
    """Whether the file only tells of other Parquet files, so its rows are not read."""
    return source.encoding == "parquet" and re.search(_SUMMARY, uri) is not None


def _is_of_folder(option: str, encoding: str) -> bool:
    row = find_options(option, encoding)
    return row is not None and row.of_folder


def checksum_options(place: str) -> dict[str, str]:
    """Return options of a reader of local files at ``place``, a path or a URI. Empty for files in a store.

    Hadoop's checksum of a file has a name that Hadoop cannot parse if the file's name has a colon, and the file could
    not be opened (docs/adr/0130). A store has no such checksums. Hadoop keeps its first client of a store for the life
    of a JVM, with the options of the reader that made it: with these, no state would ever be loaded from that store.
    """
    is_local = "://" not in place or place.startswith("file:")
    return dict(_WITHOUT_CHECKSUMS) if is_local else {}


def _lines(reader: Reader, path: str) -> DataFrame:
    lines: DataFrame = reader.format("text").load(path).select("value", _file().alias(POSITION))
    return lines


def literal(path: str) -> str:
    """Escape the characters of ``path`` that Spark's readers would take for a pattern."""
    return _MORE_THAN_ITSELF.sub(r"\\\1", path)


def _file() -> Column:
    return F.col("_metadata.file_path")


def _csv(reader: Reader, columns: StructType, options: dict[str, str], path: str, max_event_bytes: int) -> DataFrame:
    # columns are identified by their place: a file whose header names others must not be read as if it did not
    checked = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    texts = replace_timestamps(columns)
    rows: DataFrame = reader.format("csv").schema(texts.add(CORRUPT, StringType())).options(**checked).load(path)
    values = {field.name: _csv_value(field, options) for field in columns}
    unfit = [
        F.col(f"`{field.name}`").isNotNull() & values[field.name].isNull()
        for field in columns
        if isinstance(field.dataType, TimestampType)
    ]
    no_moment = reduce(operator.or_, unfit, F.lit(False))  # noqa: FBT003  lit has no keyword
    fault = (
        F.when(_bytes(columns) > max_event_bytes, F.lit(QuarantineReason.OVERSIZED.value))
        .when(_was_replaced(columns), F.lit(QuarantineReason.INVALID_UTF8.value))
        .when(F.col(CORRUPT).isNotNull(), _csv_fault(columns, options))
        .when(no_moment, F.lit(QuarantineReason.WRONG_TYPE.value))
    )
    record = F.to_json(F.struct(*(F.col(f"`{name}`") for name in columns.names)))
    raw = F.coalesce(F.col(CORRUPT), F.when(no_moment, record))
    named = [value.alias(name) for name, value in values.items()]
    return rows.select(*named, raw.alias(RAW), _file().alias(POSITION), fault.alias(FAULT))


def _csv_value(field: StructField, options: dict[str, str]) -> Column:
    """Return the value of a column, which Spark's reader leaves as text if it is to be a timestamp."""
    text = F.col(f"`{field.name}`")
    if not isinstance(field.dataType, TimestampType):
        return text
    told = {name: options[name] for name in _OF_TIMESTAMPS & options.keys()}
    one = F.from_csv(text, f"{_ONE} timestamp", {**told, "sep": _NO_TEXT, "quote": ""})[_ONE]
    return F.when(~F.rlike(text, F.lit(f"{TIME_OF_DAY}|[{_NO_TEXT}\r\n]")), one)


def _csv_fault(columns: StructType, options: dict[str, str]) -> Column:
    """Return the fault of a CSV record. One that fits columns of text has a value of another type."""
    texts = StructType()
    for name in columns.names:
        texts = texts.add(name, StringType())
    permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    unfit = F.from_csv(F.col(CORRUPT), texts.add(CORRUPT, StringType()).toDDL(), {**options, **permissive})
    return F.when(unfit[CORRUPT].isNull(), F.lit(QuarantineReason.WRONG_TYPE.value)).otherwise(
        QuarantineReason.MALFORMED.value
    )


def _texts(columns: StructType) -> list[Column]:
    names = [CORRUPT, *(field.name for field in columns if isinstance(field.dataType, StringType))]
    return [F.coalesce(F.col(f"`{name}`"), F.lit("")) for name in names]


def _bytes(columns: StructType) -> Column:
    """Return a record's size, as far as it is text."""
    return sum((F.octet_length(text) for text in _texts(columns)), F.lit(0))


def _was_replaced(columns: StructType) -> Column:
    """Return the condition that the reader replaced bytes that were no UTF-8. The record itself is gone."""
    found = F.lit(False)  # noqa: FBT003  lit has no keyword
    for text in _texts(columns):
        found |= F.contains(text, F.lit(_REPLACEMENT))
    return found
