"""Files that cannot be read: found before a batch reads them, because they are not what their names and the spec say.

Spark decompresses by the end of a name. A compressed file under another name is read as lines of garbage. Some files
that are not compressed, and have the name of a compression, are read as empty, without an error.

Spark takes an unsigned or a longer integer for a shorter one, and wraps its values around. Or it fails where each value
is read, which an expression cannot tell from a failure of its own. So the types are compared before rows are read.

A column of CSV is identified by its place, so another header means another file (docs/adr/0068).

Other files are found unreadable when they end a query, are put aside, and from then on left out of it. A file is all or
nothing: the batch that holds it has written nothing. The batch runs again without that file, and is the same in every
replay from then on (docs/adr/0010).
"""

import bz2
import csv
import gzip
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from sessionizer.errors import StoreUnreachable
from sessionizer.home.data_files import open_data, several_at_a_time
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import LineageFile, RecordFile
from sessionizer.home.roots import DataPath, folder_at, object_store
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.excluded_ranges import file_position
from sessionizer.spark.failures.query_failure import cause_in_one_line, other_header, other_length, whole_text
from sessionizer.spark.ingest.file_source import files
from sessionizer.spark.ingest.file_source.folder_watch import local_path, path_for_reader, read_bytes
from sessionizer.spark.ingest.file_source.lines import POSITION, parse_column_schema
from sessionizer.spark.ingest.punctuation import report_unreadable
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.stream_spec.document.source import FilesSource
from sessionizer.stream_spec.document.stream import StreamSpec


class _Nanoseconds(T.DataType):
    """Moments in nanoseconds, which Spark reads as whole numbers only."""


_LARGEST: Final = T.DecimalType(20, 0)
_BITS: Final[dict[T.DataType, int]] = {
    T.ByteType(): 7, T.ShortType(): 15, T.IntegerType(): 31, T.LongType(): 63, _LARGEST: 64,
}  # fmt: skip
"""Bits of the greatest value of each type of whole numbers. The last is how Spark reads unsigned ones of 64 bits."""
_HELD_BY: Final = {
    pa.int8(): T.ByteType(), pa.int16(): T.ShortType(), pa.int32(): T.IntegerType(), pa.int64(): T.LongType(),
    pa.uint8(): T.ShortType(), pa.uint16(): T.IntegerType(), pa.uint32(): T.LongType(), pa.uint64(): _LARGEST,
    pa.timestamp("ns"): _Nanoseconds(),
}  # fmt: skip
"""The shortest type of Spark that holds all values of a type of Arrow."""


def find_unfit_types(spark: SparkSession, source: FilesSource, uris: Sequence[str]) -> dict[str, str]:
    """Find the Parquet files with values that a column of ``source`` does not hold, each with the first such column."""
    columns = parse_column_schema(source.columns)
    here = {uri: path for uri in uris if (path := local_path(uri)) is not None}
    problems = {uri: find_unfit_column(columns, _schema_here(str(path))) for uri, path in here.items()}
    elsewhere = [uri for uri in uris if uri not in here]
    if elsewhere and find_unfit_column(columns, _schema_elsewhere(spark, *elsewhere)) is not None:
        problems |= {uri: find_unfit_column(columns, _schema_elsewhere(spark, uri)) for uri in elsewhere}
    return {uri: problem for uri, problem in problems.items() if problem is not None}


def find_unfit_column(declared: T.DataType, found: T.DataType, place: str = "") -> str | None:
    """Return the first part of ``declared`` that does not hold all values of ``found``, None if there is none."""
    match declared, found:
        case T.StructType(), T.StructType():
            by_name = {field.name.lower(): field.dataType for field in found}
            parts = ((f.name, f.dataType, by_name.get(f.name.lower(), T.NullType())) for f in declared)
            inside = (find_unfit_column(one, other, f"{place}.{name}".strip(".")) for name, one, other in parts)
            return next((problem for problem in inside if problem), None)
        case T.ArrayType(), T.ArrayType():
            return find_unfit_column(declared.elementType, found.elementType, f"{place}[]")
        case T.MapType(), T.MapType():
            return find_unfit_column(declared.valueType, found.valueType, f"{place}[]")
        case T.TimestampType() | T.TimestampNTZType(), _Nanoseconds():
            return f"{place} is in nanoseconds. Declare it bigint, and use timestamp_micros({place} div 1000)"
    bits, held = _BITS.get(found, 0), _BITS.get(declared)
    least = 0 if isinstance(declared, T.DateType) else _BITS[T.IntegerType()]
    is_inexact = isinstance(declared, T.FloatType | T.DoubleType | T.DateType) and bits > least
    if is_inexact or (held is not None and bits > held):
        kind, given = found.simpleString(), declared.simpleString()
        return f"{place} has values of type {kind} where source.columns has {given}. Declare it {kind}"
    return None


def _schema_elsewhere(spark: SparkSession, *uris: str) -> T.DataType:
    try:
        return spark.read.option("mergeSchema", "true").parquet(*map(path_for_reader, uris)).schema
    except (PySparkException, JavaError):
        return T.NullType()  # the query that reads them reports the error


def _schema_here(path: str) -> T.DataType:
    try:
        return _held(pa.struct(list(pq.read_schema(path))))
    except (OSError, pa.ArrowException):
        return T.NullType()  # the query that reads it reports the error


def _held(kind: pa.DataType) -> T.DataType:
    """Return the type of Spark for whole numbers and nanoseconds in ``kind``, ``NullType`` for all else."""
    if pa.types.is_dictionary(kind):
        return _held(kind.value_type)
    if pa.types.is_struct(kind):
        return T.StructType([T.StructField(field.name, _held(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return T.ArrayType(_held(kind.value_type))
    if pa.types.is_map(kind):
        return T.MapType(_held(kind.key_type), _held(kind.item_type))
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp(kind.unit)
    return _HELD_BY.get(kind, T.NullType())


_OPENERS: Final[dict[str, Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_PLAIN: Final = frozenset({"", ".csv", ".txt", ".tsv", *_OPENERS})
"""Suffixes of files whose headers are read here. Spark knows more kinds of compression."""
_LONGEST: Final = 1024 * 1024
"""Bytes within which a header must end."""


def other_headers(spark: SparkSession, source: FilesSource, uris: Sequence[str]) -> dict[str, str]:
    """Find the files whose header is not that of the source, each with the difference."""
    options = files.csv_options(source.options)
    if source.encoding != "csv" or not files.is_option_on(options, "header") or not files.has_lines(options):
        return {}
    names = parse_column_schema(source.columns).names
    found = {uri: first_csv_line(spark, uri, options) for uri in uris}
    problems = {uri: header_problem(line, names, options) for uri, line in found.items() if line is not None}
    return {uri: problem for uri, problem in problems.items() if problem is not None}


def header_problem(line: str, names: Sequence[str], options: Mapping[str, str]) -> str | None:
    """Say how the header ``line`` differs from the ``names`` of the columns, None if it does not."""
    try:
        header = _cells(line, files.separator(options), options.get("quote", files.QUOTE))
    except csv.Error as error:
        return f"the header is no CSV: {error}"
    if files.is_option_on(options, "ignoreleadingwhitespace"):
        header = [cell.lstrip() for cell in header]
    if files.is_option_on(options, "ignoretrailingwhitespace"):
        header = [cell.rstrip() for cell in header]
    if len(header) != len(names):
        return other_length(len(header), len(names))
    same = all(found.lower() == wanted.lower() for found, wanted in zip(header, names, strict=True))
    return None if same else other_header(header, names)


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
        with _OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            begin: bytes = file.read(_LONGEST)
    except (OSError, EOFError):
        return None  # the query that reads it reports the error
    lines = begin.decode("utf-8-sig", errors="replace").replace("\r", "\n").split("\n")
    return next((line for line in lines if _is_told(line, options.get("comment"))), None)


def _is_told(line: str, comment: str | None) -> bool:
    return bool(line.strip()) and not (comment and line.startswith(comment))


def _first_line_by_spark(spark: SparkSession, uri: str, options: Mapping[str, str]) -> str | None:
    by_line = {"lineSep": options["linesep"]} if "linesep" in options else {}
    lines = spark.read.format("text").options(**files.checksum_options(uri), **by_line).load(path_for_reader(uri))
    return next((row.value for row in lines.take(100) if _is_told(row.value, options.get("comment"))), None)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of file by the bytes that it begins with. ``suffix``: the end of the names by which Spark reads it."""

    name: str
    sign: re.Pattern[bytes]
    suffix: str | None = None


_KINDS: Final = (
    _Kind("gzip", re.compile(rb"\x1f\x8b\x08"), ".gz"),
    _Kind("bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), ".bz2"),
    _Kind("zstd", re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), ".zst"),
    _Kind("xz", re.compile(rb"\xfd7zXZ\x00")),
    _Kind("zip", re.compile(rb"PK\x03\x04")),
    _Kind("7z", re.compile(rb"7z\xbc\xaf\x27\x1c")),
    _Kind("lz4 in frames", re.compile(rb"\x04\x22\x4d\x18")),
    _Kind("snappy in frames", re.compile(rb"\xff\x06\x00\x00sNaPpY")),
    _Kind("Parquet", re.compile(rb"PAR1\x15")),
    _Kind("Avro", re.compile(rb"Obj\x01")),
)
_BLOCKS_OF_HADOOP: Final = (".lz4", ".snappy")
"""Ends of names of files that begin with the length of a block, and of its compressed part, four bytes each."""


def find_unfit_files(spark: SparkSession, source: FilesSource, uris: Sequence[str]) -> dict[str, str]:
    """Find the files that cannot be read as those of the source, each with the reason."""
    if source.encoding == "parquet":
        return find_unfit_types(spark, source, uris)  # Spark says what else is wrong with them
    problems = zip(uris, several_at_a_time(_problem, uris), strict=True)
    found = {uri: problem for uri, problem in problems if problem is not None}
    return found | other_headers(spark, source, [uri for uri in uris if uri not in found])


def _problem(uri: str) -> str | None:
    """Read the beginning of a file. The query that reads it reports the errors of its storage."""
    if (path := local_path(uri) or (folder_at(unquote(uri)) if object_store(uri) else None)) is None:
        return None
    with suppress(OSError, StoreUnreachable), open_data(path) as file:
        begin = file.read(16)  # longer than any sign
        return name_problem(path.name, begin, file.seek(0, 2))
    return None


def name_problem(name: str, begin: bytes, size: int) -> str | None:
    """Say why Spark cannot read a file of this ``name`` and ``begin``, None if nothing speaks against it."""
    if not begin:
        return None
    kind = next((kind for kind in _KINDS if kind.sign.match(begin)), None)
    if kind is not None and kind.suffix is None:
        return f"it is {kind.name}, which Spark does not read as text"
    if kind is not None and not name.endswith(kind.suffix or ""):
        return f"it is {kind.name}, which Spark reads only if the name ends in {kind.suffix}"
    named = next((each for each in _KINDS if each.suffix and name.endswith(each.suffix)), None)
    if named is not None and named is not kind:
        return f"its name ends in {named.suffix}, but it is not {named.name}"
    if name.endswith(_BLOCKS_OF_HADOOP) and int.from_bytes(begin[4:8], "big") > size:
        return f"it is not {name.rpartition('.')[2]} as Hadoop writes it, which Spark reads under this name"
    return None


_NAMED: Final = re.compile(r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (\S+)\.\s")


@dataclass(frozen=True, slots=True)
class UnreadableRecord(JsonRecord):
    """The record of a lineage's unreadable ``files``, each with the cause."""

    files: Mapping[str, str]


UNREADABLE_FILE: Final = LineageFile("unreadable_files.json", UnreadableRecord)


@dataclass(frozen=True, slots=True)
class UnreadableFiles:
    """Unreadable files of a lineage. ``record`` remembers them, a report in ``punctuations`` quarantines them."""

    record: RecordFile[UnreadableRecord]
    punctuations: DataPath

    @classmethod
    def of(cls, home: StreamHome, lineage: str) -> Self:
        """Return the unreadable files of ``lineage``."""
        return cls(UNREADABLE_FILE.of(home, lineage), home.punctuations(lineage))

    def uris(self) -> list[str]:
        """Return the files to leave out, as Spark names them. Raises DamagedFile, ControlUnreachable."""
        return sorted(self._known())

    def meet(self, error: Exception, spark: SparkSession, spec: StreamSpec, brought: Sequence[str]) -> str | None:
        """Put the file aside that ended a query with ``error``, and return its damage.

        ``brought``: the files of the batch. Spark names none of them if it fails at a single value of Parquet. None if
        no file caused the error, or one that is left out already.
        """
        named = _NAMED.search(str(error))
        suspects = [file_position(named[1])] if named else brought if "parquet" in whole_text(error) else ()
        known = self.uris()
        for each in suspects:
            if each not in known and (cause := _damage(spark, spec, each)) is not None:
                self.put_aside(each, cause)
                return f"quarantined as a whole, as it cannot be read: {each} ({cause})"
        return None

    def report_empty(self, uris: Iterable[str]) -> None:
        """Quarantine empty files, which are no Parquet files, but which Spark ignores."""
        for uri in uris:
            report_unreadable(self.punctuations, _file_id(uri), uri, "the file is empty")

    def put_aside(self, uri: str, cause: str) -> None:
        """Have the file quarantined, and left out of every query from now on."""
        # Reported first, remembered second: what is left out is never missing from the quarantine. A report that is
        # repeated after a kill in between has the same name, and is no news to the source that reads it.
        report_unreadable(self.punctuations, _file_id(uri), uri, cause)
        self.record.write(UnreadableRecord({**self._known(), uri: cause}))

    def _known(self) -> Mapping[str, str]:
        found = self.record.require()
        return {} if found is None else found.files


def drop_files(rows: DataFrame, uris: Sequence[str]) -> DataFrame:
    """Return the rows of all other files. Spark does not even open these."""
    return rows.where(~F.col(POSITION).isin(*uris)) if uris else rows


def _file_id(uri: str) -> str:
    return hashlib.sha256(uri.encode()).hexdigest()[:16]


def _damage(spark: SparkSession, spec: StreamSpec, uri: str) -> str | None:
    """Find the damage in the content of a file.

    None if the file can be read by now, or if even its bytes cannot be read. Then the storage is to blame, or the file
    is gone, and events that may still be read must not be given up.
    """
    source = spec.source
    if source.format != "files":
        return None
    path, limit = path_for_reader(uri), spec.rules.max_event_bytes
    if _failure(lambda: read_bytes(spark, [uri]).select(F.crc32("content"))) is not None:
        return None
    return _failure(lambda: files.read_files(spark.read, source, path, limit))


def _failure(read: Callable[[], DataFrame]) -> str | None:
    try:
        read().write.format("noop").mode("overwrite").save()
    except (PySparkException, JavaError) as error:
        return cause_in_one_line(str(error)) or java_message(error)
    return None
