"""Files as the rows that a stream's source has, a whole folder of them or one alone.

CSV read line by line: every line is one record, in quotes as RFC 4180 has them.

Spark's own reader of CSV keeps no line that it could read. So it cannot tell a record that ends inside quotes, nor a
character that it put in itself. One line of too many columns ends the query. Spark's reader still reads files without
lines.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.spark.ingest.file_source.lines import (
    BEGINS,
    CORRUPT,
    FAULT,
    POSITION,
    RAW,
    drop_blank_lines,
    find_in_folders,
    find_times_of_day,
    line_fault,
    parse_column_schema,
    parse_lines,
    replace_timestamps,
)
from sessionizer.stream_spec.document.reader_options import find_options
from sessionizer.stream_spec.sql_guard import TIME_OF_DAY

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.source import FilesSource


_MOST_COLUMNS: Final = 524_289
"""Room for a line of separators alone, of the default size of an event. The parser reserves it for each task."""
_OF_THE_FILE: Final = frozenset({"header", "enforceschema", "linesep", "comment"})
"""Options that concern no single record."""
QUOTE: Final = '"'


def csv_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's parser, in lower case. A quote inside quotes is doubled by default."""
    found = {name.lower(): value for name, value in options.items()}
    quote = found.get("quote", QUOTE)
    return {**({"escape": quote} if quote else {}), "enforceschema": "false", **found}


def is_option_on(options: Mapping[str, str], name: str) -> bool:
    """Whether an option of ``csv_options`` is true."""
    return options.get(name, "false").lower() == "true"


def has_lines(options: Mapping[str, str]) -> bool:
    """Whether each line is one record of UTF-8 whose header, if any, must be checked."""
    unchecked = is_option_on(options, "header") and is_option_on(options, "enforceschema")
    return not (is_option_on(options, "multiline") or unchecked or {"encoding", "charset"} & options.keys())


def separator(options: Mapping[str, str]) -> str:
    """Return the separator between two columns."""
    written = options.get("sep", options.get("delimiter", ","))
    return {r"\t": "\t", r"\\": "\\", r"\0": "\0"}.get(written, written)


def parse_csv_lines(
    lines: DataFrame, columns: StructType, options: Mapping[str, str], max_event_bytes: int
) -> DataFrame:
    """Return rows of the declared ``columns`` with their faults, of lines that are no header, comment or blank."""
    records = lines.where(F.btrim("value", F.lit(" \t\r\n\f\v")) != "")
    if comment := options.get("comment"):
        records = records.where(~F.startswith("value", F.lit(comment)))
    parser = _Parser(options, max_event_bytes)
    if is_option_on(options, "header"):
        records = records.where(~_is_header(columns, parser))
    rows = records.select("value", POSITION, parser.parsed(columns).alias("parsed"))
    fault = F.when(F.col("parsed").isNull() | F.col(f"parsed.`{CORRUPT}`").isNotNull(), _unfit_reason(columns, parser))
    times = find_times_of_day(columns, options, parser.may_have_time_of_day, parser.parsed)
    fault = line_fault(max_event_bytes).otherwise(fault.when(times, F.lit(QuarantineReason.WRONG_TYPE.value)))
    names = [F.col(f"parsed.`{name}`") for name in columns.names]
    return rows.select(*names, F.expr("make_valid_utf8(value)").alias(RAW), POSITION, fault.alias(FAULT))


@dataclass(frozen=True, slots=True)
class _Parser:
    """Spark's parser of one record with the ``options`` of the source, for lines that do not end the query with it."""

    options: Mapping[str, str]
    max_event_bytes: int

    @property
    def most_columns(self) -> int:
        """Number of columns that the parser has room for."""
        return int(self.options.get("maxcolumns", min(self.max_event_bytes + 1, _MOST_COLUMNS)))

    @property
    def fits(self) -> Column:
        """Condition for a line to be parsed: one of more columns than there is room for would end the query."""
        between = separator(self.options)
        drop_files = F.replace(F.col("value"), F.lit(between), F.lit(""))
        separators = ((F.length("value") - F.length(drop_files)) / len(between)).cast("int")
        return (F.octet_length("value") <= self.max_event_bytes) & (separators + 2 <= self.most_columns)

    @property
    def may_have_time_of_day(self) -> Column:
        """Condition for a line in which the text of a column may begin as a time of day does."""
        marks = [separator(self.options), *(self.options.get(name, QUOTE) for name in ("quote", "escape"))]
        return F.rlike("value", F.lit(f"(?:^|{'|'.join(_quoted_for_java(mark) for mark in marks if mark)}){BEGINS}"))

    def parsed(self, columns: StructType) -> Column:
        """Return the line as ``columns``, with ``CORRUPT`` set if it is unfit. Null where the line is not parsed."""
        # quotes that are still open swallow a column of ours behind the last, and the record is a column short
        with_ours = StructType([*columns]).add("_end_of_record", StringType()).add(CORRUPT, StringType())
        record = F.concat("value", F.lit(separator(self.options) + "."))
        others = {name: value for name, value in self.options.items() if name not in _OF_THE_FILE}
        permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "maxcolumns": str(self.most_columns)}
        return F.when(self.fits, F.from_csv(record, with_ours.toDDL(), {**others, **permissive}))


def _text_columns(columns: StructType) -> StructType:
    return StructType([StructField(name, StringType()) for name in columns.names])


def _unfit_reason(columns: StructType, parser: _Parser) -> Column:
    """Return the reason of an unfit record. One that fits columns of text has a value of another type."""
    texts, wrong_type = parser.parsed(_text_columns(columns)), F.lit(QuarantineReason.WRONG_TYPE.value)
    fits_text = texts.isNotNull() & texts[CORRUPT].isNull()
    return F.when(fits_text, wrong_type).otherwise(QuarantineReason.MALFORMED.value)


def _is_header(columns: StructType, parser: _Parser) -> Column:
    """Find a line of the columns' names. Few begin with the first one: only these are parsed for it."""
    quote = _quoted_for_java(parser.options.get("quote", QUOTE))
    begins = F.rlike("value", F.lit(rf"(?iu)^[\s{quote}]{{0,9}}" + _quoted_for_java(columns.names[0])))
    texts = parser.parsed(_text_columns(columns))
    same = [F.lower(texts[name]).eqNullSafe(F.lit(name.lower())) for name in columns.names]
    return begins & reduce(operator.and_, same)


def _quoted_for_java(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text)


Reader: TypeAlias = Any
"""A DataStreamReader or a DataFrameReader: PySpark has no common type for the two."""

_SUMMARY: Final = r"/_(?:common_)?metadata[^/]*$"
"""Pattern of a file that tells of other Parquet files. Spark lists it, unlike other files with such a name."""
_OF_TIMESTAMPS: Final = frozenset({"timestampformat", "enabledatetimeparsingfallback", "locale", "timezone"})
_NO_TEXT: Final = "\x01"


def read_files(reader: Reader, source: FilesSource, path: str, max_event_bytes: int) -> DataFrame:
    """Read the files at ``path`` (see ``literal``) as those of ``source``. Raises InvalidSpec for invalid columns."""
    of_folder = {name for name in source.options if (row := find_options(name, source.encoding)) and row.of_folder}
    reader_options = {name: value for name, value in source.options.items() if name in of_folder}
    parser_options = {name: value for name, value in source.options.items() if name not in reader_options}
    # by default Spark skips a file that is a week older than the newest it knows, without a warning
    reader = reader.options(maxFileAge="36500d").options(**checksum_options(path)).options(**reader_options)
    of_lines = {name: value for name, value in parser_options.items() if name.lower() == "linesep"}
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
    # few paths have a part that begins so: no pattern is searched in each row
    rows = rows.where(~(F.contains(_file(), F.lit("/_")) & F.rlike(_file(), F.lit(_SUMMARY))))
    names = [F.col(f"`{name}`") for name in columns.names]
    # decodes each value outside of what makes a failed expression null. The remainder is 0 or 1
    touched = F.pmod(F.xxhash64(*(_hashable(field) for field in columns)), F.lit(2)) > 1
    fault = F.when(touched | find_in_folders(columns), F.lit(QuarantineReason.WRONG_TYPE.value))
    return rows.select(*names, F.lit(None).cast("string").alias(RAW), _file().alias(POSITION), fault.alias(FAULT))


def _hashable(field: StructField) -> Column:
    """Return a column as Spark can hash it, which it does with no map and no variant."""
    column, kind = F.col(f"`{field.name}`"), field.dataType.simpleString()
    if isinstance(field.dataType, StringType):
        return F.octet_length(column)  # decodes the text and reads no byte of it
    return F.to_json(F.struct(column)) if "map<" in kind or "variant" in kind else column


def is_summary(source: FilesSource, uri: str) -> bool:
    """Whether the file only tells of other Parquet files, so its rows are not read."""
    return source.encoding == "parquet" and re.search(_SUMMARY, uri) is not None


def checksum_options(place: str) -> dict[str, str]:
    """Return options of a reader of local files at ``place``, a path or a URI. Empty for files in a store.

    Hadoop's checksum of a file has a name that Hadoop cannot parse if the file's name has a colon, and the file could
    not be opened (docs/adr/0130). A store has no such checksums. Hadoop keeps its first client of a store for the life
    of a JVM, with the options of the reader that made it: with these, no state would ever be loaded from that store.
    """
    if "://" in place and not place.startswith("file:"):
        return {}
    return {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}


def _lines(reader: Reader, path: str) -> DataFrame:
    lines: DataFrame = reader.format("text").load(path).select("value", _file().alias(POSITION))
    return lines


def literal(path: str) -> str:
    """Escape the characters of ``path`` that Spark's readers would take for a pattern."""
    return re.sub(r"([\\\[\]{}*?])", r"\\\1", path)


def _file() -> Column:
    return F.col("_metadata.file_path")


def _csv(reader: Reader, columns: StructType, options: dict[str, str], path: str, max_event_bytes: int) -> DataFrame:
    # columns are identified by their place: a file whose header names others must not be read as if it did not
    checked = {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    texts = replace_timestamps(columns)
    rows: DataFrame = reader.format("csv").schema(texts.add(CORRUPT, StringType())).options(**checked).load(path)
    values = {field.name: _csv_value(field, options) for field in columns}
    moments = (field.name for field in columns if isinstance(field.dataType, TimestampType))
    unfit = (F.col(f"`{name}`").isNotNull() & values[name].isNull() for name in moments)
    no_moment = reduce(operator.or_, unfit, F.lit(False))  # noqa: FBT003  lit has no keyword
    kept = [CORRUPT, *(field.name for field in columns if isinstance(field.dataType, StringType))]
    found = [F.coalesce(F.col(f"`{name}`"), F.lit("")) for name in kept]
    size = sum((F.octet_length(text) for text in found), F.lit(0))
    # the reader replaced bytes that were no UTF-8. The record itself is gone
    replaced = (F.contains(text, F.lit("\N{REPLACEMENT CHARACTER}")) for text in found)
    was_replaced = reduce(operator.or_, replaced, F.lit(False))  # noqa: FBT003  lit has no keyword
    fault = (
        F.when(size > max_event_bytes, F.lit(QuarantineReason.OVERSIZED.value))
        .when(was_replaced, F.lit(QuarantineReason.INVALID_UTF8.value))
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
    one = F.from_csv(text, "one timestamp", {**told, "sep": _NO_TEXT, "quote": ""})["one"]
    return F.when(~F.rlike(text, F.lit(f"{TIME_OF_DAY}|[{_NO_TEXT}\r\n]")), one)


def _csv_fault(columns: StructType, options: dict[str, str]) -> Column:
    """Return the fault of a CSV record. One that fits columns of text has a value of another type."""
    texts = _text_columns(columns)
    permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    unfit = F.from_csv(F.col(CORRUPT), texts.add(CORRUPT, StringType()).toDDL(), {**options, **permissive})
    wrong_type = F.when(unfit[CORRUPT].isNull(), F.lit(QuarantineReason.WRONG_TYPE.value))
    return wrong_type.otherwise(QuarantineReason.MALFORMED.value)
