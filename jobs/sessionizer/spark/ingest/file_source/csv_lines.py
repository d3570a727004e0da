"""CSV read line by line: every line is one record, in quotes as RFC 4180 has them.

Spark's own reader of CSV keeps no line that it could read. So it cannot tell a record that ends inside quotes, nor a
character that it put in itself. One line of too many columns ends the query. Spark's reader still reads files without
lines.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from sessionizer.core.definition.outcome import QuarantineReason
from sessionizer.spark.ingest.file_source.lines import CORRUPT, FAULT, POSITION, RAW, line_fault
from sessionizer.spark.ingest.file_source.times_of_day import BEGINS, find_times_of_day

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

_LAST: Final = "_end_of_record"
"""A column of ours behind the last. Quotes that are still open swallow it, and the record is a column short."""
_MARK: Final = "."
_MOST_COLUMNS: Final = 524_289
"""Room for a line of separators alone, of the default size of an event. The parser reserves it for each task."""
_OF_THE_FILE: Final = frozenset({"header", "enforceschema", "linesep", "comment"})
"""Options that concern no single record."""
_BLANKS: Final = " \t\r\n\f\v"
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
    records = _drop_comments(lines, options.get("comment"))
    parser = _Parser(options, max_event_bytes)
    if is_option_on(options, "header"):
        records = records.where(~_is_header(columns, parser))
    rows = records.select("value", POSITION, parser.parsed(columns).alias("parsed"))
    unfit = F.col("parsed").isNull() | F.col(f"parsed.`{CORRUPT}`").isNotNull()
    fault = F.when(unfit, _unfit_reason(columns, parser))
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
        with_ours = StructType([*columns]).add(_LAST, StringType()).add(CORRUPT, StringType())
        record = F.concat("value", F.lit(separator(self.options) + _MARK))
        others = {name: value for name, value in self.options.items() if name not in _OF_THE_FILE}
        permissive = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "maxcolumns": str(self.most_columns)}
        return F.when(self.fits, F.from_csv(record, with_ours.toDDL(), {**others, **permissive}))


def _drop_comments(lines: DataFrame, comment: str | None) -> DataFrame:
    records = lines.where(F.btrim("value", F.lit(_BLANKS)) != "")
    return records.where(~F.startswith("value", F.lit(comment))) if comment else records


def _text_columns(columns: StructType) -> StructType:
    texts = StructType()
    for name in columns.names:
        texts = texts.add(name, StringType())
    return texts


def _unfit_reason(columns: StructType, parser: _Parser) -> Column:
    """Return the reason of an unfit record. One that fits columns of text has a value of another type."""
    texts = parser.parsed(_text_columns(columns))
    fits_text = texts.isNotNull() & texts[CORRUPT].isNull()
    wrong_type = F.lit(QuarantineReason.WRONG_TYPE.value)
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
