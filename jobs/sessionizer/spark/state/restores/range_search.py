"""Facts of a restore's or a rollback's plan that Spark tells, such as the ranges of the source that are excluded.

Reads no row of the source, and changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pyspark.sql import SparkSession

from sessionizer.checkpoint.files import SeenFile
from sessionizer.errors import InvalidSpec
from sessionizer.home.data_files import commits_of, list_added_files, read_actions
from sessionizer.home.roots import folder_at, is_uri, resolve_place
from sessionizer.home.stream_home import SavepointHome, StreamHome
from sessionizer.lineage.excluded_ranges import ExcludedRange, Records
from sessionizer.spark.ingest.source import check_reachable
from sessionizer.spark.state.lineages.source_beginning import files_there, list_lost_events, offsets_at
from sessionizer.spark.state.restores.table_rows import count_from_files
from sessionizer.spark.state.savepoints.saved_state import read_saved_files
from sessionizer.state.commands.moves import Edge, Start
from sessionizer.state.commands.return_plans import FileFacts, carried_ranges, files_read
from sessionizer.state.restores.ranges import (
    FLAG,
    FileNames,
    FileTimes,
    RecordTimes,
    ResolvedRanges,
    Span,
    Versions,
    combine_ranges,
    exclude_files,
    exclude_records,
    exclude_versions,
    first_whole_version,
    parse_range,
    records_in_span,
    remarks_on_files,
)
from sessionizer.state.restores.row_changes import RowChanges, RowsOfTable, StreamedTable
from sessionizer.state.savepoints.manifest import Manifest, read_saved_spec
from sessionizer.stream_spec.document.source import DeltaSource, FilesSource, KafkaSource
from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True)
class SparkFacts(FileFacts):
    """Facts that ``spark`` tells if files do not. Rows are counted from files first, because that takes no job."""

    spark: SparkSession

    @property
    def spark_version(self) -> str:
        """Version of the running Spark."""
        return self.spark.version

    def count_changes(self, stream: str, tables: Sequence[StreamedTable], changes: RowChanges) -> list[RowsOfTable]:
        """Count the rows that leave each table and come back. Raises RowsGone, DataAway, UnwritablePath."""
        return count_from_files(self.spark, stream, tables, changes)

    def read_saved_files(self, savepoint: SavepointHome, manifest: Manifest) -> Sequence[SeenFile]:
        """Return the files that the source had read after the savepoint's batch, if it is a folder of files."""
        return read_saved_files(self.spark, savepoint, manifest)

    def resolve_ranges(
        self, home: StreamHome, savepoint: SavepointHome, manifest: Manifest, typed: Sequence[str]
    ) -> ResolvedRanges:
        """Resolve the ``typed`` exclusions in the source. Raises InvalidSpec, SourceUnreachable, DamagedFile."""
        return resolve_ranges(self.spark, home, savepoint, manifest, typed)

    def list_lost_events(
        self,
        home: StreamHome,
        spec: StreamSpec,
        offset: Any,  # noqa: ANN401  JSON
        noted: Mapping[str, str],
    ) -> tuple[str, ...]:
        """List the events after ``offset`` that a topic or table no longer has, as texts."""
        return list_lost_events(self.spark, home, spec, offset, noted)


def resolve_ranges(
    spark: SparkSession, home: StreamHome, savepoint: SavepointHome, manifest: Manifest, typed: Sequence[str]
) -> ResolvedRanges:
    """Resolve the exclusions of a restore to ``savepoint``: those of the savepoint's lineage, and the ``typed`` ones.

    A file that was read since and is gone by now may be excluded, too: its rows are lost, and the user confirms that.
    Raises InvalidSpec, naming what is allowed, SourceUnreachable, DamagedFile.
    """
    looking = _Looking(spark, home, savepoint, manifest)
    found = [looking.found(each) for each in dict.fromkeys(typed)]
    ranges = [each for some, _ in found for each in some]
    return combine_ranges(
        carried_ranges(home, manifest), ranges, [remark for _, remarks in found for remark in remarks]
    )


class _Looking:
    """A look at the source that the stream reads after a restore to ``savepoint``."""

    def __init__(self, spark: SparkSession, home: StreamHome, savepoint: SavepointHome, manifest: Manifest) -> None:
        self._spark, self._home, self._savepoint, self._manifest = spark, home, savepoint, manifest
        self._offset = manifest.position.offset

    def found(self, typed: str) -> tuple[list[ExcludedRange], list[str]]:
        """Resolve ``typed`` to ranges, with remarks for the user."""
        source = read_saved_spec(self._savepoint, self._manifest).source
        wanted = parse_range(typed, source.format)
        match wanted, source:
            case FileNames() | FileTimes(), FilesSource():
                return self._files(typed, wanted, source)
            case Records(), KafkaSource():
                return [self._records(typed, wanted, source)], []
            case RecordTimes(), KafkaSource():
                return self._records_in_span(typed, wanted, source)
            case Versions(), DeltaSource():
                return [self._versions(typed, wanted, source)], []
        raise AssertionError(typed)  # of each source there is one kind of range

    def _files(
        self, typed: str, wanted: FileNames | FileTimes, source: FilesSource
    ) -> tuple[list[ExcludedRange], list[str]]:
        there = files_there(self._spark, source, self._home.platform)
        before = [file.uri for file in read_saved_files(self._spark, self._savepoint, self._manifest)]
        folder = _uri(resolve_place(source.path, self._home.platform))
        found, stay = exclude_files(typed, wanted, folder, [*there, *files_read(self._home)], before)
        return [found], remarks_on_files(found, stay, there)

    def _records(self, typed: str, wanted: Records, source: KafkaSource) -> ExcludedRange:
        check_reachable(source)
        ends = offsets_at(self._spark, source, self._home.platform, Start(edge=Edge.LATEST))
        return exclude_records(typed, wanted, self._offset, ends)

    def _records_in_span(
        self, typed: str, wanted: RecordTimes, source: KafkaSource
    ) -> tuple[list[ExcludedRange], list[str]]:
        check_reachable(source)
        starts = (Start(at=wanted.since), Start(at=wanted.until), Start(edge=Edge.LATEST))
        since, until, ends = (offsets_at(self._spark, source, self._home.platform, each) for each in starts)
        return records_in_span(typed, wanted, Span(since, until, self._offset), ends)

    def _versions(self, typed: str, wanted: Versions, source: DeltaSource) -> ExcludedRange:
        first = first_whole_version(self._offset)
        if first is None:
            raise InvalidSpec(
                FLAG, typed, "Omit it, because the stream had not begun to read the table at the savepoint"
            )
        table = resolve_place(source.path, self._home.platform)
        return exclude_versions(typed, wanted, first, dict(_added_files(table, first)))


def _added_files(table: str, first: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each version from ``first`` on with the URIs of the files of rows that it brought."""
    root = _uri(table)
    for version, commit in commits_of(folder_at(table)).items():
        if version >= first:
            adds = list_added_files(read_actions(commit))
            # Delta writes a path below its table, or a URI
            paths = (add["path"] for add in adds if add["dataChange"])
            yield version, [path if is_uri(path) else f"{root}/{path}" for path in paths]


def _uri(folder: str) -> str:
    """Return the beginning of the URIs of a folder's files."""
    return folder.rstrip("/") if is_uri(folder) else f"file:{quote(os.path.normpath(folder))}"
