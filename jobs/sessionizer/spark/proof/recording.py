"""Recorded batches of the active lineage, and the spec that they are replayed by. Changes nothing of the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.batch_logs import list_begun_batches, list_committed_batches
from sessionizer.checkpoint.file_lists import files_of_batch
from sessionizer.checkpoint.names import PUNCTUATIONS
from sessionizer.counts import count_text
from sessionizer.errors import BatchOutrun, DamagedFile, NothingToProve
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.applied_migrations import waiting_migrations
from sessionizer.lineage.checkpoint_record import require_readable_lineage
from sessionizer.lineage.excluded_ranges import file_position
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.ingest.file_source.file_sizes import sizes_of
from sessionizer.spark.ingest.unreadable_files import UnreadableFiles
from sessionizer.state.proof.batches import choose_batches
from sessionizer.stream_spec.decisions import (
    KEY_GROUPS,
    MIGRATIONS,
    Change,
    changes_between,
    decisions_of,
    document_of,
    field_at,
    leaves,
    list_decisions,
)
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.loading.spec_file import parse_recorded_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.proof.batches import ReplayedBatches
    from sessionizer.stream_spec.document.migration import Migration

_REMOVES_FILES: Final = frozenset({"cleansource", "sourcearchivedir"})
"""Options of a source of files, in lower case, by which Spark removes the files that it has read."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Batches of ``lineage``, whose rows are in the tables of the folder ``sink``, and the ``spec`` of the replay.

    ``changes``: of the spec since the rows were written, among them those by the migrations that wait. ``notes``: what
    is left out, in words. ``old_spec``: what the lineage runs by. ``waiting``: migrations of the spec that its open
    events have not had.
    """

    lineage: str
    checkpoint: DataPath
    sink: str | None
    spec: StreamSpec
    batches: ReplayedBatches
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    old_spec: StreamSpec
    waiting: tuple[Migration, ...] = ()

    def use_recorded_spec(self) -> Recording:
        """Return the recording for a replay by the spec that the lineage runs by, without migrations."""
        return replace(self, spec=replay_spec(self.old_spec, self.spec.key_groups), changes=(), waiting=())


def read_recording(spark: SparkSession, home: StreamHome, spec: StreamSpec, count: int, first: int | None) -> Recording:
    """Choose ``count`` batches, from ``first`` on or the newest ones, for a replay by ``spec``.

    Raises NothingToProve, UnreadableLineage, MigrationRefused, DamagedFile, and BatchOutrun if Spark removes a batch
    meanwhile.
    """
    lineage = active_lineage(home)
    if lineage is None:
        raise NothingToProve(home.name, "it never ran")
    require_readable_lineage(home, lineage)
    record = SPEC_FILE.of(home, lineage).require()
    if record is None:
        raise DamagedFile(SPEC_FILE.of(home, lineage).path, "it is gone")
    decided = changes_between(list_decisions(record.document), decisions_of(spec))
    changes = tuple(change for change in decided if change.field != MIGRATIONS)  # applied ones may leave the file
    _require_same_source(home.name, spec, changes)
    checkpoint = home.checkpoint(lineage)
    try:
        obstacle = _obstacles(spark, home, lineage, spec)
        batches = choose_batches(home.name, _kept_batches(checkpoint), count, first, obstacle)
    except FileNotFoundError as error:
        raise BatchOutrun(home.name, first or 0, f"{error.filename or error} is gone") from error
    waiting = waiting_migrations(home, lineage, spec)
    notes = [each for each in (batches.note, _note_on_groups(changes)) if each]
    return Recording(
        lineage=lineage,
        checkpoint=checkpoint,
        sink=record.sink,
        spec=replay_spec(spec, int(record.document[KEY_GROUPS])),
        batches=batches,
        changes=(*(change for change in changes if change.field != KEY_GROUPS), *_changes_by_migrations(waiting)),
        notes=tuple(notes),
        old_spec=parse_recorded_spec(record.document, SPEC_FILE.of(home, lineage).path),
        waiting=waiting,
    )


def replay_spec(spec: StreamSpec, key_groups: int) -> StreamSpec:
    """Return the spec for a replay: it leaves the files of the source where they are.

    The fork has the ``key_groups`` of the lineage.
    """
    document = document_of(spec)
    if options := document["source"].get("options"):
        kept = {name: value for name, value in options.items() if name.lower() not in _REMOVES_FILES}
        document["source"]["options"] = kept
    return StreamSpec.model_validate({**document, KEY_GROUPS: key_groups})


def _require_same_source(stream: str, spec: StreamSpec, changes: tuple[Change, ...]) -> None:
    if spec.source.format == "socket":
        raise NothingToProve(stream, "a socket keeps none of its events")
    for change in changes:
        known = field_at(change.field)
        if known is not None and known.selects_events:
            raise NothingToProve(stream, f"the batches were read from another source ({change})")


def _kept_batches(checkpoint: DataPath) -> set[int]:
    return list_committed_batches(checkpoint) & list_begun_batches(checkpoint)


def _obstacles(spark: SparkSession, home: StreamHome, lineage: str, spec: StreamSpec) -> Callable[[int], str | None]:
    """Return a function that says why a batch cannot be replayed, None if it can."""
    checkpoint = home.checkpoint(lineage)
    unreadable = set(UnreadableFiles.of(home, lineage).uris())

    @cache
    def obstacle(batch_id: int) -> str | None:
        if spec.source.format == "files":
            read = map(file_position, files_of_batch(checkpoint, batch_id))
            if gone := _missing_files(spark, [uri for uri in read if uri not in unreadable]):
                return f"the source lacks {count_text(len(gone), 'file')} of it, such as {gone[0]}"
        if gone := _missing_files(spark, files_of_batch(checkpoint, batch_id, PUNCTUATIONS)):
            return f"{len(gone)} of its punctuations are gone, such as {gone[0]}: an earlier release removed them"
        return None

    return obstacle


def _missing_files(spark: SparkSession, uris: list[str]) -> list[str]:
    return [uri for uri, size in sizes_of(spark, uris).items() if size is None]


def _note_on_groups(changes: tuple[Change, ...]) -> str | None:
    found = next((change for change in changes if change.field == KEY_GROUPS), None)
    return None if found is None else f"{found} is not replayed: a rescale changes no session"


def _changes_by_migrations(migrations: Sequence[Migration]) -> list[Change]:
    """Return what ``migrations`` do to open events as changes of fields, such as ``migrated.key``."""
    found = []
    for each in migrations:
        declared = each.model_dump(mode="json", exclude_defaults=True)
        dropped = {"drop": dict.fromkeys(declared.pop("drop", ()), "dropped")}
        del declared["id"]
        fields = leaves({**declared, **dropped}, "migrated.")
        found += [Change(name, None, f"{value} (migration {each.id})") for name, value in fields]
    return found
