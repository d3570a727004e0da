"""Plans of a restore and a rollback, from records, manifests, checkpoints and Delta's logs.

The plan is the same whether files or Spark tell its facts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sessionizer.checkpoint.files import SeenFile, read_seen_files
from sessionizer.checkpoint.log_entries import (
    EVENTS,
    PARTITIONS,
    read_begun_batch,
    read_last_commit,
    read_planned_batch,
)
from sessionizer.control.records.erasure_record import require_swept
from sessionizer.control.records.operation_record import operation_ids
from sessionizer.deployment.differences import OpenState, Side
from sessionizer.deployment.releases import programs_needed
from sessionizer.deployment.upgrade_plan import choose_groups, describe_pending, judge_file
from sessionizer.errors import InvalidSpec, SourceReplaced, UnusableSavepoint
from sessionizer.home.data_files import commits_of, data_exists
from sessionizer.home.names import STREAMED
from sessionizer.home.roots import folder_at, resolve_place
from sessionizer.home.stream_home import CHECKPOINT, SEEN_FILES, SavepointHome, StreamHome
from sessionizer.lineage.active import active_lineage, require_lineage
from sessionizer.lineage.excluded_ranges import NOTHING_EXCLUDED, ExcludedRanges, read_excluded_ranges
from sessionizer.lineage.kept_spec import (
    SPEC_FILE,
    choose_known_ids,
    read_source_ids,
    require_same_source,
    sink_folders,
)
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.restores import Restore, RestorePlan, RollbackPlan
from sessionizer.state.lineages.committed_batch import FILES, Offset
from sessionizer.state.lineages.origin import (
    Origin,
    Path,
    find_moved_rows,
    origins_of,
    path_to,
    rollback_of,
    undo_in_place,
)
from sessionizer.state.lineages.table_snapshot import SparkNeeded, left_to_spark, read_snapshot, read_table_id
from sessionizer.state.restores.ranges import (
    Replay,
    ResolvedRanges,
    combine_ranges,
    coming_back_remarks,
    drop_excluded_files,
    parse_range,
    replay_of_delta,
    replay_of_files,
    replay_of_topic,
)
from sessionizer.state.restores.row_changes import (
    RowChanges,
    RowsOfTable,
    StreamedTable,
    changes_to,
    count_changes_in_files,
    streamed_tables,
)
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, checksum, read_saved_spec
from sessionizer.state.savepoints.savepoint_writer import require_same_line
from sessionizer.state.savepoints.verification import require_undamaged
from sessionizer.stream_spec.decisions import document_of, list_decisions, spec_fingerprint
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import parse_recorded_spec


class FileFacts:
    """Facts of a plan that files tell. Each raises SparkNeeded if they do not. ``SparkFacts`` then asks Spark."""

    @property
    def spark_version(self) -> str:
        """Version of the installed Spark, which reads a native savepoint."""
        try:
            return version("pyspark")
        except PackageNotFoundError as error:
            raise SparkNeeded("no Spark here") from error

    def count_changes(self, stream: str, tables: Sequence[StreamedTable], changes: RowChanges) -> list[RowsOfTable]:
        """Count the rows that leave each table and come back. Raises RowsGone, DataAway."""
        return count_changes_in_files(stream, tables, changes)

    def read_saved_files(self, savepoint: SavepointHome, manifest: Manifest) -> Sequence[SeenFile]:
        """Return the files that the source had read after the savepoint's batch, if it is a folder of files."""
        if manifest.position.format != FILES:
            return ()
        if manifest.kind is SavepointKind.NATIVE:
            return read_seen_files(savepoint.part(CHECKPOINT), manifest.batch_id)
        with left_to_spark():
            snapshot = read_snapshot(savepoint.part(SEEN_FILES))
            tables = [file.read(("uri", "changed_at_ms")) for file in snapshot.files] if snapshot else []
        return [SeenFile(row["uri"], row["changed_at_ms"]) for table in tables for row in table.to_pylist()]

    def resolve_ranges(
        self, home: StreamHome, savepoint: SavepointHome, manifest: Manifest, typed: Sequence[str]
    ) -> ResolvedRanges:
        """Resolve the ``typed`` exclusions in the source, with those of the savepoint's lineage. Raises InvalidSpec."""
        if typed:
            source = read_saved_spec(savepoint, manifest).source
            for each in typed:
                parse_range(each, source.format)
            raise SparkNeeded(f"a look at the source for savepoint {savepoint.id}")
        return combine_ranges(carried_ranges(home, manifest), (), ())

    def list_lost_events(
        self, home: StreamHome, spec: StreamSpec, offset: Offset, noted: Mapping[str, str]
    ) -> tuple[str, ...]:
        """List the events after ``offset`` that a topic or table no longer has, as texts."""
        source = spec.source
        if source.format == "kafka" and offset:
            raise SparkNeeded("a look at the topics")
        if source.format != "delta" or not offset:
            return ()
        with left_to_spark():
            found = read_table_id(folder_at(resolve_place(source.path, home.platform)))
        now = {} if found is None else {source.path: found}
        try:
            require_same_source(spec.name, choose_known_ids(noted, source.model_dump(), offset), now)
        except SourceReplaced as error:
            return (str(error),)
        return ()


def carried_ranges(home: StreamHome, manifest: Manifest) -> ExcludedRanges:
    """Return the ranges that the savepoint's lineage excludes, as the home and the savepoint have them."""
    saved = ExcludedRanges.from_json(manifest.excluded_ranges) if manifest.excluded_ranges else NOTHING_EXCLUDED
    return read_excluded_ranges(home, manifest.lineage).and_also(saved.ranges)


def files_read(home: StreamHome) -> list[SeenFile]:
    """Return the files that the active lineage has read of a source of files, whether they still exist or not."""
    lineage = active_lineage(home)
    if lineage is None:
        return []
    spec, newest = SPEC_FILE.of(home, lineage).require(), read_begun_batch(home.checkpoint(lineage))
    if newest is None or (spec is not None and spec.document["source"]["format"] != FILES):
        return []
    return read_seen_files(home.checkpoint(lineage), newest)


def plan_rollback(home: StreamHome, facts: FileFacts) -> RollbackPlan:
    """Make the plan. Writes nothing. Raises NothingToSave if the stream never ran, NoWayBack."""
    (origin, before, batch_id), leaves = rollback_of(home)
    newest = read_begun_batch(home.checkpoint(leaves))
    return RollbackPlan(
        stream=home.name,
        leaves=leaves,
        verb=origin.verb,
        newest_batch=-1 if newest is None else newest,
        lineage=before,
        batch_id=batch_id,
        tables=_count_rows(home, facts, tables_before(home, leaves), changes_before(home, leaves, before)),
        replay=_replay(home, facts, leaves, before, batch_id),
        remarks=(
            *coming_back_remarks(leaves, read_excluded_ranges(home, leaves), read_excluded_ranges(home, before)),
            *programs_needed(home, before),
            *undo_in_place(home, leaves),
        ),
    )


def _count_rows(
    home: StreamHome, facts: FileFacts, tables: Sequence[StreamedTable], changes: RowChanges
) -> tuple[RowsOfTable, ...]:
    """Count the rows. Raises OperationPending if the sweep of an erasure may remove versions that are to be read."""
    if changes.missing:
        require_swept(home)
    return tuple(facts.count_changes(home.name, tables, changes))


def tables_before(home: StreamHome, leaves: str) -> list[StreamedTable]:
    """Return every table that a batch of the stream writes or wrote, those of the lineage that is left first."""
    record, origins = SPEC_FILE.of(home, leaves).require(), origins_of(home)
    current, origin = () if record is None else (record.sink,), origins.get(leaves)
    versions = origin.tables if origin else {}
    tables = streamed_tables(home, (*current, *sink_folders(home, origins)), {})
    return [replace(table, version=versions.get(table.location)) for table in tables]


def changes_before(home: StreamHome, leaves: str, before: str) -> RowChanges:
    """Return the row changes. Rows of a batch that ``before`` has begun count: it goes on with that batch."""
    return _changes_from(home, leaves, path_to(before, None, origins_of(home)))


def _replay(home: StreamHome, facts: FileFacts, leaves: str, before: str, batch_id: int) -> Replay:
    records = {lineage: SPEC_FILE.of(home, lineage).require() for lineage in (leaves, before)}
    sources = {lineage: record.document["source"] if record else {} for lineage, record in records.items()}
    source, checkpoint = sources[before], home.checkpoint(before)
    then: list[str] = []
    now: list[str] = []
    if source["format"] == FILES:
        then = [file.uri for file in read_seen_files(checkpoint, batch_id)]
        newest = read_begun_batch(home.checkpoint(leaves))
        if newest is not None and sources[leaves].get("path") == source["path"]:
            now = [file.uri for file in read_seen_files(home.checkpoint(leaves), newest)]
    offset = read_planned_batch(checkpoint, batch_id).ends.get(EVENTS)
    record, spec = records[before], None
    with suppress(InvalidSpec):  # this release may refuse it
        spec = parse_recorded_spec(record.document, SPEC_FILE.of(home, before).path) if record else None
    return replay_of(home, facts, source, offset, then, now, spec=spec, noted=read_source_ids(home, before))


def plan_restore(
    home: StreamHome,
    savepoint: SavepointHome,
    manifest: Manifest,
    facts: FileFacts,
    command: Restore,
    begun: ExcludedRanges | None = None,
) -> RestorePlan:
    """Make the plan of a restore of the stream to a complete savepoint.

    ``begun``: excluded ranges of a restore that was begun, in place of the command's. Raises NothingToSave if the
    stream never ran, UnusableSavepoint for one that is damaged, or native and of another line of Spark, InvalidSpec,
    SourceUnreachable, DamagedFile.
    """
    require_undamaged(savepoint, manifest)
    if manifest.kind is SavepointKind.NATIVE:
        require_same_line(manifest, facts.spark_version)
    leaves = require_lineage(home)
    newest, counts = read_begun_batch(home.checkpoint(leaves)), manifest.counts
    kept = SPEC_FILE.of(home, leaves).read()
    found = facts.resolve_ranges(home, savepoint, manifest, command.exclude) if begun is None else ResolvedRanges(begun)
    tables = _count_rows(home, facts, tables_of(home, manifest), changes_of(home, manifest))
    return RestorePlan(
        stream=home.name,
        savepoint=manifest.id,
        manifest=checksum(manifest.to_json()),
        lineage=manifest.lineage,
        batch_id=manifest.batch_id,
        leaves=leaves,
        spec=spec_fingerprint(read_saved_spec(savepoint, manifest)),
        excluded_ranges=found.excluded_ranges,
        canary=command.terms,
        batch_at=manifest.batch_at,
        newest_batch=-1 if newest is None else newest,
        sessions=counts.sessions if counts else None,
        events=counts.events if counts else None,
        # of former folders only the tables that change
        tables=tuple(each for place, each in enumerate(tables) if place < len(STREAMED) or each.rows or each.rows_back),
        replay=replay_now(home, savepoint, manifest, facts, found.excluded_ranges),
        remarks=(
            *found.remarks,
            *coming_back_remarks(leaves, read_excluded_ranges(home, leaves), found.excluded_ranges),
        ),
        leads_back=can_lead_back(home),
        spec_stays=kept is not None and list_decisions(kept.document) == list_decisions(manifest.spec),
    )


def plan_restore_from_files(
    home: StreamHome, savepoint: SavepointHome, manifest: Manifest, command: Restore
) -> Plan[RestorePlan]:
    """Make the plan without Spark. Raises SparkNeeded for a file or typed ranges, and as ``plan_restore``."""
    if command.with_file:
        raise SparkNeeded("an examination of the file")
    found = plan_restore(home, savepoint, manifest, FileFacts(), command)
    if command.divides_anew:
        spec = choose_groups(read_saved_spec(savepoint, manifest), command.key_groups)
        found = judge_saved(found, home, manifest, command, spec)
    return command.plan(found)


def judge_saved(  # noqa: PLR0913, PLR0917  what is judged
    found: RestorePlan,
    home: StreamHome,
    manifest: Manifest,
    command: Restore,
    spec: StreamSpec,
    pending: Sequence[Migration] = (),
    same_to_spark: frozenset[str] = frozenset(),
) -> RestorePlan:
    """Judge each difference of ``spec`` from the savepoint as an upgrade does. ``same_to_spark``: as ``judge_file``."""
    kept = replace(manifest.fingerprint, configuration={PARTITIONS: manifest.fingerprint.configuration[PARTITIONS]})
    before = Side(manifest.spec, kept, manifest.checkpoint_format, manifest.revision)
    document = document_of(spec) if command.with_file else {**manifest.spec, "key_groups": spec.key_groups}
    state = OpenState(manifest.counts.sessions if manifest.counts else None, manifest.payload_types)
    sides = before, replace(before, spec=document).divide(command.partitions)
    return replace(
        found,
        spec=spec_fingerprint(spec),
        by_file=command.with_file,
        differences=judge_file(home, sides, spec, state, pending, same_to_spark),
        accepted=tuple(sorted(set(command.accept))),
        migrations=describe_pending(pending),
    )


def can_lead_back(home: StreamHome) -> bool:
    """Whether a rollback can undo a restore: the lineage that it leaves has a batch."""
    return read_last_commit(home.checkpoint(require_lineage(home))) is not None


def tables_of(home: StreamHome, manifest: Manifest) -> list[StreamedTable]:
    """Return every table that a batch of the stream writes or wrote, those of the savepoint's spec first."""
    folders = (manifest.spec["sink"]["path"], *sink_folders(home, origins_of(home)))
    return streamed_tables(home, folders, manifest.versions)


def changes_of(home: StreamHome, manifest: Manifest) -> RowChanges:
    """Return the row changes that bring the tables onto the savepoint's path. Raises NothingToSave."""
    return _changes_from(home, require_lineage(home), saved_path(manifest, origins_of(home)))


def _changes_from(home: StreamHome, active: str, target: Path) -> RowChanges:
    origins = origins_of(home)
    since = find_moved_rows(active, origins)
    return changes_to(target, path_to(active, None, origins), origins, operation_ids(home), since)


def saved_path(manifest: Manifest, origins: Mapping[str, Origin | None]) -> Path:
    """Return the path of the savepoint's state. ``origins``: of the lineages that the home knows.

    Raises UnusableSavepoint for one of an earlier release, which has no path, if the home lacks a lineage of it.
    """
    if manifest.path:
        return manifest.path
    found = path_to(manifest.lineage, manifest.batch_id, origins)
    unknown = [segment.lineage for segment in found if segment.lineage not in origins]
    if unknown:
        cause = f"an earlier release made it, and this home has no record of its lineage {unknown[0]}"
        raise UnusableSavepoint(manifest.id, f"{cause}, so which rows belong to it is not known")
    return found


def replay_now(
    home: StreamHome, savepoint: SavepointHome, manifest: Manifest, facts: FileFacts, excluded_ranges: ExcludedRanges
) -> Replay:
    """Find the part of the source that a restore reads again, as it is now."""
    is_files = manifest.position.format == FILES
    then = [file.uri for file in facts.read_saved_files(savepoint, manifest)] if is_files else []
    now = [file.uri for file in files_read(home)] if is_files else []
    spec, source, offset = read_saved_spec(savepoint, manifest), manifest.spec["source"], manifest.position.offset
    found = replay_of(home, facts, source, offset, then, now, spec=spec, noted=manifest.source_ids)
    return drop_excluded_files(found, excluded_ranges)


def replay_of(  # noqa: PLR0913  what tells a replay
    home: StreamHome,
    facts: FileFacts,
    source: Mapping[str, Any],
    offset: Offset,
    then: Collection[str],
    now: Iterable[str],
    *,
    spec: StreamSpec | None,
    noted: Mapping[str, str],
) -> Replay:
    """Describe the replay of a spec's ``source`` from ``offset`` on, and what of it the source no longer has.

    For files, those of ``now`` without those of ``then``. ``spec``: the one of the source, None if this release refuses
    it. Then the source is not asked. ``noted``: the recorded ids of its topics or table.
    """
    match source["format"]:
        case "files":
            again = replay_of_files(then, now, lambda uri: data_exists(folder_at(uri)))
        case "delta":
            table = folder_at(resolve_place(str(source["path"]), home.platform))
            again = replay_of_delta(offset, {*commits_of(table)})
        case "kafka":
            again = replay_of_topic(offset)
        case other:
            again = Replay(f"a {other}, which cannot be read again")
    lost = facts.list_lost_events(home, spec, offset, noted) if spec else ()
    return replace(again, missing=(*again.missing, *lost))
