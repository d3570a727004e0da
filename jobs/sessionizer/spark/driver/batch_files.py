"""The files of a planned batch, checked before it writes anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from sessionizer.checkpoint.file_lists import files_of_batch
from sessionizer.errors import SessionizerError, SourceFilesGone, SourceUnreachable
from sessionizer.home.roots import resolve_place
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.excluded_ranges import file_position
from sessionizer.spark.ingest.file_source.files import is_summary
from sessionizer.spark.ingest.file_source.folder_watch import sizes_of
from sessionizer.spark.ingest.file_source.unfit_files import UnreadableFiles, find_unfit_files
from sessionizer.spark.ingest.topics import find_other_column
from sessionizer.spark.internals.delta_log import column_ids
from sessionizer.stream_spec.document.source import Source
from sessionizer.stream_spec.document.stream import StreamSpec

AWAY: Final = "the folder is not there"
GONE_AFTER_S: Final = 30.0
"""Seconds after which a missing folder ends the driver. A mount may be away for a moment."""


def require_folder(home: StreamHome, source: Source) -> None:
    """Raise SourceUnreachable if the folder of a stream that has run before is missing, such as an unmounted one."""
    folder = _missing_folder(home, source)
    if folder is not None and active_lineage(home) is not None:
        raise SourceUnreachable(folder, AWAY)


def _missing_folder(home: StreamHome, source: Source) -> str | None:
    """Return the folder of the source if it is not there. None if it is, or cannot be seen from here."""
    if source.format != "files":
        return None
    folder = resolve_place(source.path, home.platform)
    return None if _may_be_there(folder) else folder


def _may_be_there(folder: str) -> bool:
    return "://" in folder or Path(folder).is_dir()


@dataclass(slots=True)
class FolderCheck:
    """Check of the folder of a source while its query runs. Spark takes a missing folder for an empty one.

    ``clock`` is monotonic, in seconds.
    """

    home: StreamHome
    source: Source
    clock: Callable[[], float] = time.monotonic
    _gone_since: float | None = None

    def look(self) -> None:
        """Raise SourceUnreachable if the folder has been missing for ``GONE_AFTER_S``."""
        folder, now = _missing_folder(self.home, self.source), self.clock()
        if folder is None:
            self._gone_since = None
            return
        self._gone_since = now if self._gone_since is None else self._gone_since
        if now - self._gone_since >= GONE_AFTER_S:
            raise SourceUnreachable(folder, AWAY)


class FilesPutAside(Exception):
    """The batch has unreadable files. A query that starts anew leaves them out."""


class ColumnReplaced(Exception):
    """A name that the mapping uses is another column of the source now. A query that starts anew reads that one."""


@dataclass(slots=True)
class BatchFiles:
    """A check of what each batch of a lineage reads. ``error``, ``put_aside`` and ``other`` say why it ended a query.

    ``columns``: those of a Delta source by which the query reads it.
    """

    home: StreamHome
    lineage: str
    columns: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    other: str | None = None
    error: SessionizerError | None = None
    put_aside: dict[str, str] = field(default_factory=dict)
    brought: list[str] = field(default_factory=list)
    """The files of the batch."""

    def require(self, spark: SparkSession, spec: StreamSpec, batch_id: int) -> None:
        """Check the batch's files.

        Raises SourceFilesGone, SourceUnreachable, FilesPutAside if the batch is to run without some, ColumnReplaced.
        """
        source = spec.source
        if source.format == "delta" and self.columns:
            now = column_ids(spark, resolve_place(source.path, self.home.platform))
            if (other := find_other_column(spec, self.columns, now)) is not None:
                self.other = other
                raise ColumnReplaced
        if source.format != "files":
            return
        unreadable = UnreadableFiles.of(self.home, self.lineage)
        known = set(unreadable.uris())
        brought = map(file_position, files_of_batch(self.home.checkpoint(self.lineage), batch_id))
        sizes = sizes_of(spark, [uri for uri in brought if uri not in known and not is_summary(source, uri)])
        if gone := [uri for uri, size in sizes.items() if size is None]:
            folder = resolve_place(source.path, self.home.platform)
            # if the folder is gone as well, it was unmounted or will be back
            was_unmounted, files = not _may_be_there(folder), SourceFilesGone(self.home.name, batch_id, tuple(gone))
            self.error = SourceUnreachable(folder, AWAY) if was_unmounted else files
            raise self.error
        if source.encoding == "parquet":
            unreadable.report_empty([uri for uri, size in sizes.items() if not size])
        self.brought = list(sizes)
        self.put_aside = find_unfit_files(spark, source, self.brought)
        for uri, problem in self.put_aside.items():
            unreadable.put_aside(uri, problem)
        if self.put_aside:
            raise FilesPutAside

    def reason(self) -> str | None:
        """Say what the next query does otherwise, None if nothing."""
        if self.other is not None:
            return f"the columns of the source changed: {self.other!r} is another one"
        files = [f"{uri} ({problem})" for uri, problem in self.put_aside.items()]
        return f"quarantined as a whole, as it cannot be read: {', '.join(files)}" if files else None
