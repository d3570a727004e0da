"""Lines of text, one event each, as rows of declared columns, and the three columns that every source's rows have.

``_raw`` (string): the row as it came, if it came as text. ``_position`` (string): where it was read. ``_fault``
(string): why it cannot be parsed, null if it can, a value of ``QuarantineReason``.

Spark makes ``10:00`` a moment of the day on which it is read. The parsed value no longer shows it. A record that may
have such a text is therefore parsed once more, with texts in place of timestamps.
"""

from collections.abc import Callable, Mapping
from typing import Final, cast

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampType

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.errors import InvalidSpec
from sessionizer.spark.ingest.expressions import find_in_parts
from sessionizer.spark.internals.java_errors import java_message
from sessionizer.stream_spec.sql_guard import TIME_OF_DAY

BEGINS: Final = r"[\x00-\x20\x7f]*(?:T[0-9]|[0-9]{1,2}:)"
"""Pattern of how such a text begins."""


def find_times_of_day(
    columns: StructType, options: Mapping[str, str], may_have: Column, parse: Callable[[StructType], Column]
) -> Column:
    """Find records with a time of day for a timestamp. Those that ``may_have`` one are parsed anew with texts."""
    has_format = "timestampformat" in {name.lower() for name in options}

    def is_time(text: Column, kind: DataType) -> Column | None:
        if not isinstance(kind, TimestampType):
            return None
        found = F.rlike(text, F.lit(TIME_OF_DAY))
        # a format may begin with hours
        return F.coalesce(found & text.cast("timestamp").isNotNull() if has_format else found, F.lit(False))  # noqa: FBT003  lit has no keyword

    found = find_in_parts(parse(replace_timestamps(columns)), columns, is_time)
    return F.lit(False) if found is None else may_have & found  # noqa: FBT003  lit has no keyword


def find_in_folders(columns: StructType) -> Column:
    """Find rows of a folder such as ``at=10%3A00``, whose name gives the value of a timestamp of ``columns``."""
    if not (names := "|".join(rf"\Q{field.name}\E" for field in columns if isinstance(field.dataType, TimestampType))):
        return F.lit(False)  # noqa: FBT003  lit has no keyword
    file = F.col("_metadata.file_path")
    path = F.regexp_replace(file, "%(25)?3A", ":")
    begins = F.lit(rf"(?i)/(?:{names})=(?:%(?:25)?(?:[01][0-9a-f]|20|7f))*{BEGINS}")
    # few paths have such a folder: no pattern is searched in each row
    return F.contains(file, F.lit("=")) & F.rlike(path, begins)


def replace_timestamps(columns: StructType) -> StructType:
    """Return the columns with texts in place of timestamps."""
    return StructType([StructField(field.name, _replaced(field.dataType)) for field in columns])


def _replaced(kind: DataType) -> DataType:
    match kind:
        case TimestampType():
            return StringType()
        case StructType():
            return replace_timestamps(kind)
        case ArrayType():
            return ArrayType(_replaced(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _replaced(kind.valueType))
    return kind


RAW, POSITION, FAULT = "_raw", "_position", "_fault"
CORRUPT: Final = "_corrupt_record"
"""The column in which Spark's parsers leave a record that does not fit."""


def drop_blank_lines(lines: DataFrame, encoding: str) -> DataFrame:
    """Drop blank lines of JSON, which are no events, unlike records of Kafka. The mapping judges lines of ``text``."""
    if encoding != "json":
        return lines
    # nearly every line begins with a brace: no second look at those
    return lines.where(F.startswith("value", F.lit("{")) | (F.btrim("value", F.lit(" \t\r")) != ""))


def line_fault(max_event_bytes: int) -> Column:
    """Return the fault of ``value`` as a line of text, to be followed by ``when`` and ``otherwise``."""
    too_large = F.when(F.octet_length("value") > max_event_bytes, F.lit(QuarantineReason.OVERSIZED.value))
    return too_large.when(~F.is_valid_utf8("value"), F.lit(QuarantineReason.INVALID_UTF8.value))


def parse_lines(
    lines: DataFrame, encoding: str, columns: str | None, options: Mapping[str, str], max_event_bytes: int
) -> DataFrame:
    """Parse rows of a column ``value``, with their faults. ``json`` becomes its declared columns."""
    fault = line_fault(max_event_bytes)
    raw = F.expr("make_valid_utf8(value)").alias(RAW)
    others = [name for name in lines.columns if name != "value"]
    if encoding == "text":
        return lines.select("value", *others, raw, fault.alias(FAULT))
    declared = parse_column_schema(columns)
    parsed = _parse_json(declared, options)
    names = [F.col(f"parsed.`{name}`") for name in declared.names]
    rows = lines.select("value", *others, parsed.alias("parsed"))
    fault = fault.when(_has_half_a_character(), F.lit(QuarantineReason.INVALID_UTF8.value))
    may_have = F.contains("value", F.lit("\\")) | F.rlike("value", F.lit(f"[\"']{BEGINS}"))
    times = find_times_of_day(declared, options, may_have, lambda texts: _parse_json(texts, options))
    unfit = _json_fault().when(times, F.lit(QuarantineReason.WRONG_TYPE.value))
    return rows.select(*names, *others, raw, fault.otherwise(unfit).alias(FAULT))


def _has_half_a_character() -> Column:
    """Find lines in which an escape is half a surrogate pair. Spark makes ``?`` of it, so two keys would become one.

    No pattern repeats a group: Java would need stack for each repetition. Few lines have such an escape at all.
    """
    may_have = F.contains("value", F.lit(r"\ud")) | F.contains("value", F.lit(r"\uD"))
    no_backslashes = F.regexp_replace("value", r"\\\\", " ")
    alone = F.regexp_replace(no_backslashes, r"\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}", " ")
    return may_have & F.rlike(alone, F.lit(r"\\u[dD][89a-fA-F]"))


def _parse_json(columns: StructType, options: Mapping[str, str]) -> Column:
    # NaN and Infinity are no JSON
    strict = {"allowNonNumericNumbers": "false", **options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    return F.from_json("value", StructType([*columns]).add(CORRUPT, StringType()), strict)


def _json_fault() -> Column:
    """Tell the two faults of JSON apart: Spark marks a record that does not fit, and valid JSON has a wrong type."""
    unfit = F.col(f"parsed.{CORRUPT}").isNotNull() | F.col("value").isNull() | (F.trim("value") == "")
    is_object = F.expr("json_object_keys(value)").isNotNull()
    misfit = F.when(is_object, QuarantineReason.WRONG_TYPE.value).otherwise(QuarantineReason.MALFORMED.value)
    fault = F.when(unfit, misfit)
    # Spark reads the first of several objects and drops the rest. Most objects are flat: they end with their only brace
    flat = F.instr("value", "}") == F.length("value")
    is_alone = flat | F.json_array_length(F.concat(F.lit("["), "value", F.lit("]"))).eqNullSafe(1)
    return fault.when(~is_alone, QuarantineReason.MALFORMED.value)


def parse_column_schema(columns: str | None) -> StructType:
    """Return the columns that a spec declares as DDL. Raises InvalidSpec."""
    try:
        declared = cast("StructType", StructType.fromDDL(columns or ""))
    except PySparkException as error:
        raise InvalidSpec("source.columns", columns, f"columns as DDL ({java_message(error)})") from error
    if computed := [field.name for field in declared if field.metadata.keys() - {"comment"}]:
        raise InvalidSpec("source.columns", columns, f"names, types and comments only: {', '.join(computed)} has more")
    names = [name.lower() for name in declared.names]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        allowed = f"each column once, whatever its case: {', '.join(repeated)} is repeated"
        raise InvalidSpec("source.columns", columns, allowed)
    return declared
