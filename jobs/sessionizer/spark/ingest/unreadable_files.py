"""Files of the source that are proven unreadable, put aside, and from then on left out of the query.

A file is all or nothing. When one ends the query, the batch that holds it has written nothing. The batch runs again
without that file, and is the same in every replay from then on (docs/adr/0010).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.home.json_record import add_stamp, content_of
from sessionizer.home.record_file import read_json, write_json
from sessionizer.home.roots import ControlPath, DataPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.excluded_ranges import file_position
from sessionizer.spark.failures.query_failure import cause_in_one_line, whole_text
from sessionizer.spark.ingest.file_source.files import read_files
from sessionizer.spark.ingest.file_source.folder_watch import path_for_reader, read_bytes
from sessionizer.spark.ingest.file_source.lines import POSITION
from sessionizer.spark.ingest.punctuation import report_unreadable
from sessionizer.spark.internals.java_errors import JavaError, java_message
from sessionizer.stream_spec.document.stream import StreamSpec

_FILES: Final = "files"
_PARQUET: Final = "parquet"
_NAMED: Final = re.compile(r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (\S+)\.\s")


@dataclass(frozen=True, slots=True)
class UnreadableFiles:
    """Unreadable files of a lineage. ``record`` remembers them, a report in ``punctuations`` quarantines them."""

    record: ControlPath
    punctuations: DataPath

    @classmethod
    def of(cls, home: StreamHome, lineage: str) -> UnreadableFiles:
        """Return the unreadable files of ``lineage``."""
        return cls(home.lineage(lineage).unreadable_files, home.punctuations(lineage))

    def uris(self) -> list[str]:
        """Return the files to leave out, as Spark names them."""
        return sorted(self._known())

    def meet(self, error: Exception, spark: SparkSession, spec: StreamSpec, brought: Sequence[str]) -> str | None:
        """Put the file aside that ended a query with ``error``, and return its damage.

        ``brought``: the files of the batch. Spark names none of them if it fails at a single value of Parquet. None if
        no file caused the error, or one that is left out already.
        """
        uri = _named_file(error)
        suspects = [uri] if uri else brought if _PARQUET in whole_text(error) else ()
        known = self.uris()
        for each in suspects:
            cause = None if each in known else _damage(spark, spec, each)
            if cause is not None:
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
        write_json(self.record, add_stamp({_FILES: {**self._known(), uri: cause}}))

    def _known(self) -> Mapping[str, object]:
        """Read the cause for each file, by its URI. Raises DamagedFile."""
        return content_of(self.record, read_json(self.record) or {}, _FILES)


def drop_files(rows: DataFrame, uris: Sequence[str]) -> DataFrame:
    """Return the rows of all other files. Spark does not even open these."""
    return rows.where(~F.col(POSITION).isin(*uris)) if uris else rows


def _file_id(uri: str) -> str:
    return hashlib.sha256(uri.encode()).hexdigest()[:16]


def _named_file(error: Exception) -> str | None:
    """Find the file whose reading ended a query, as ``_position`` has it."""
    found = _NAMED.search(str(error))
    return file_position(found[1]) if found else None


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
    return _failure(lambda: read_files(spark.read, source, path, limit))


def _failure(read: Callable[[], DataFrame]) -> str | None:
    """Read every column to the end, and return the error if there is one."""
    try:
        read().write.format("noop").mode("overwrite").save()
    except (PySparkException, JavaError) as error:
        return cause_in_one_line(str(error)) or java_message(error)
    return None
