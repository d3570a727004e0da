"""The headers of CSV files.

A column is identified by its place, so another header means another file (docs/adr/0068).
"""

from __future__ import annotations

import bz2
import csv
import gzip
from typing import TYPE_CHECKING, Final

from sessionizer.spark.failures.query_failure import other_header, other_length
from sessionizer.spark.ingest.file_source.csv_lines import QUOTE, csv_options, has_lines, is_option_on, separator
from sessionizer.spark.ingest.file_source.file_sizes import local_path, path_for_reader
from sessionizer.spark.ingest.file_source.files import checksum_options
from sessionizer.spark.ingest.file_source.lines import parse_column_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from sessionizer.stream_spec.document.source import FilesSource

_PLAIN: Final = frozenset({"", ".csv", ".txt", ".tsv", ".gz", ".bz2"})
"""Suffixes of files whose headers are read here. Spark knows more kinds of compression."""
_LONGEST: Final = 1024 * 1024
"""Bytes within which a header must end."""


def other_headers(spark: SparkSession, source: FilesSource, uris: Sequence[str]) -> dict[str, str]:
    """Find the files whose header is not that of the source, each with the difference."""
    options = csv_options(source.options)
    if source.encoding != "csv" or not is_option_on(options, "header") or not has_lines(options):
        return {}
    names = parse_column_schema(source.columns).names
    found = {uri: first_csv_line(spark, uri, options) for uri in uris}
    problems = {uri: header_problem(line, names, options) for uri, line in found.items() if line is not None}
    return {uri: problem for uri, problem in problems.items() if problem is not None}


def header_problem(line: str, names: Sequence[str], options: Mapping[str, str]) -> str | None:
    """Say how the header ``line`` differs from the ``names`` of the columns, None if it does not."""
    try:
        header = [_trim(cell, options) for cell in _cells(line, separator(options), options.get("quote", QUOTE))]
    except csv.Error as error:
        return f"the header is no CSV: {error}"
    if len(header) != len(names):
        return other_length(len(header), len(names))
    same = all(found.lower() == wanted.lower() for found, wanted in zip(header, names, strict=True))
    return None if same else other_header(header, names)


def _trim(cell: str, options: Mapping[str, str]) -> str:
    cell = cell.lstrip() if is_option_on(options, "ignoreleadingwhitespace") else cell
    return cell.rstrip() if is_option_on(options, "ignoretrailingwhitespace") else cell


def _cells(line: str, between: str, quote: str) -> list[str]:
    if len(between) > 1:
        return line.split(between)
    if not quote:
        return next(csv.reader([line], delimiter=between, quoting=csv.QUOTE_NONE))
    return next(csv.reader([line], delimiter=between, quotechar=quote))


def first_csv_line(spark: SparkSession, uri: str, options: Mapping[str, str]) -> str | None:
    """Read the first line of a file that is neither blank nor a comment, None if there is none."""
    path = local_path(uri)
    if path is None or path.suffix.lower() not in _PLAIN or "linesep" in options:
        return _first_line_by_spark(spark, uri, options)
    try:
        begin = _begin(path)
    except (OSError, EOFError):
        return None  # the query that reads it reports the error
    lines = begin.decode("utf-8-sig", errors="replace").replace("\r", "\n").split("\n")
    return next((line for line in lines if _is_told(line, options.get("comment"))), None)


def _begin(path: Path) -> bytes:
    match path.suffix.lower():
        case ".gz":
            with gzip.open(path) as file:
                return file.read(_LONGEST)
        case ".bz2":
            with bz2.open(path) as file:
                return file.read(_LONGEST)
        case _:
            with path.open("rb") as file:
                return file.read(_LONGEST)


def _is_told(line: str, comment: str | None) -> bool:
    return bool(line.strip()) and not (comment and line.startswith(comment))


def _first_line_by_spark(spark: SparkSession, uri: str, options: Mapping[str, str]) -> str | None:
    by_line = {"lineSep": options["linesep"]} if "linesep" in options else {}
    lines = spark.read.format("text").options(**checksum_options(uri), **by_line).load(path_for_reader(uri))
    return next((row.value for row in lines.take(100) if _is_told(row.value, options.get("comment"))), None)
