"""Planning of a restore from a stream and a savepoint. Nothing is stopped or changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sessionizer.checkpoint.batch_logs import read_begun_batch, read_last_commit
from sessionizer.errors import UnusableSavepoint
from sessionizer.home.data_files import commits_of, data_exists
from sessionizer.home.names import STREAMED
from sessionizer.home.roots import folder_at, resolve_place
from sessionizer.lineage.active import require_lineage
from sessionizer.lineage.canary.judge import USUAL
from sessionizer.lineage.excluded_ranges import read_excluded_ranges
from sessionizer.lineage.kept_spec import SPEC_FILE, sink_folders
from sessionizer.spark.state.lineages.source_losses import list_lost_events
from sessionizer.spark.state.restores.range_search import files_read, resolve_ranges
from sessionizer.spark.state.restores.table_rows import count_changes
from sessionizer.spark.state.savepoints.saved_state import read_saved_files
from sessionizer.state.lineages.committed_batch import FILES
from sessionizer.state.lineages.origin import origins_of
from sessionizer.state.lineages.path import path_to
from sessionizer.state.restores.replay import replay_of_delta, replay_of_files, replay_of_topic
from sessionizer.state.restores.resolved_ranges import ResolvedRanges, coming_back_remarks, drop_excluded_files
from sessionizer.state.restores.restore_plan import Replay, RestoreDecision, RestorePlan
from sessionizer.state.restores.row_changes import changes_to, streamed_tables
from sessionizer.state.savepoints.data_digest import require_undamaged
from sessionizer.state.savepoints.manifest import SavepointKind, checksum, read_saved_spec
from sessionizer.state.savepoints.native import require_same_line
from sessionizer.stream_spec.decisions import list_decisions, spec_fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from sessionizer.home.stream_home import SavepointHome, StreamHome
    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.lineage.excluded_ranges import ExcludedRanges
    from sessionizer.state.lineages.origin import Origin
    from sessionizer.state.lineages.path import Path
    from sessionizer.state.restores.row_changes import RowChanges, RowsOfTable, StreamedTable
    from sessionizer.state.savepoints.manifest import Manifest
    from sessionizer.stream_spec.document.stream import StreamSpec


def plan_restore(  # noqa: PLR0913  what a plan is made of
    spark: SparkSession,
    home: StreamHome,
    savepoint: SavepointHome,
    manifest: Manifest,
    exclude: Sequence[str] = (),
    begun: ExcludedRanges | None = None,
    *,
    canary: CanaryTerms | None = USUAL,
) -> RestorePlan:
    """Make the plan of a restore of the stream to a complete savepoint.

    ``exclude``: ranges of the source as they are typed, or the ranges of a restore that was ``begun``. ``canary``: of
    the new lineage. Raises NothingToSave if the stream never ran, UnusableSavepoint for
    one that is damaged, or native and of another line of Spark, InvalidSpec, SourceUnreachable, DamagedFile.
    """
    require_undamaged(savepoint, manifest)
    if manifest.kind is SavepointKind.NATIVE:
        require_same_line(manifest, spark.version)
    leaves = require_lineage(home)
    newest, counts = read_begun_batch(home.checkpoint(leaves)), manifest.counts
    kept = SPEC_FILE.of(home, leaves).read()
    found = ResolvedRanges(begun) if begun is not None else resolve_ranges(spark, home, savepoint, manifest, exclude)
    return RestorePlan(
        decision=RestoreDecision(
            stream=home.name,
            savepoint=manifest.id,
            manifest=checksum(manifest.to_json()),
            lineage=manifest.lineage,
            batch_id=manifest.batch_id,
            leaves=leaves,
            spec=spec_fingerprint(read_saved_spec(savepoint, manifest)),
            excluded_ranges=found.excluded_ranges,
            canary=canary,
        ),
        batch_at=manifest.batch_at,
        newest_batch=-1 if newest is None else newest,
        sessions=counts.sessions if counts else None,
        events=counts.events if counts else None,
        tables=tuple(_changed_tables(spark, home, manifest)),
        replay=replay_now(spark, home, savepoint, manifest, found.excluded_ranges),
        remarks=(
            *found.remarks,
            *coming_back_remarks(leaves, read_excluded_ranges(home, leaves), found.excluded_ranges),
        ),
        leads_back=can_lead_back(home),
        spec_stays=kept is not None and list_decisions(kept.document) == list_decisions(manifest.spec),
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
    origins, active = origins_of(home), require_lineage(home)
    return changes_to(saved_path(manifest, origins), path_to(active, None, origins), origins)


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


def _changed_tables(spark: SparkSession, home: StreamHome, manifest: Manifest) -> list[RowsOfTable]:
    """Count the changes of the savepoint's tables, and of those in former folders that change."""
    found = count_changes(spark, home.name, tables_of(home, manifest), changes_of(home, manifest))
    return [each for place, each in enumerate(found) if place < len(STREAMED) or each.rows or each.rows_back]


def replay_now(
    spark: SparkSession, home: StreamHome, savepoint: SavepointHome, manifest: Manifest, excluded_ranges: ExcludedRanges
) -> Replay:
    """Find the part of the source that a restore reads again, as it is now."""
    return drop_excluded_files(_replay(spark, home, savepoint, manifest), excluded_ranges)


def _replay(spark: SparkSession, home: StreamHome, savepoint: SavepointHome, manifest: Manifest) -> Replay:
    then: list[str] = []
    now: list[str] = []
    if manifest.position.format == FILES:
        then = [file.uri for file in read_saved_files(spark, savepoint, manifest)]
        now = [file.uri for file in files_read(home)]
    spec, source, offset = read_saved_spec(savepoint, manifest), manifest.spec["source"], manifest.position.offset
    return replay_of(spark, home, source, offset, then, now, spec=spec, noted=manifest.source_ids)


def replay_of(  # noqa: PLR0913  what tells a replay
    spark: SparkSession,
    home: StreamHome,
    source: Mapping[str, Any],
    offset: Any,  # noqa: ANN401  JSON
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
    again = _describe_replay(home, source, offset, then, now)
    lost = list_lost_events(spark, home, spec, offset, noted) if spec else ()
    return replace(again, missing=(*again.missing, *lost))


def _describe_replay(
    home: StreamHome,
    source: Mapping[str, Any],
    offset: Any,  # noqa: ANN401  JSON
    then: Collection[str],
    now: Iterable[str],
) -> Replay:
    match source["format"]:
        case "files":
            return replay_of_files(then, now, lambda uri: data_exists(folder_at(uri)))
        case "delta":
            return replay_of_delta(offset, {*commits_of(folder_at(resolve_place(str(source["path"]), home.platform)))})
        case "kafka":
            return replay_of_topic(offset)
        case other:
            return Replay(f"a {other}, which cannot be read again")
