"""Plan of an upgrade or an apply, from the records of a lineage and this installation: no Spark, nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from sessionizer.checkpoint.log_entries import read_pinned_settings
from sessionizer.control.records.supervision_records import bundle_of_watch
from sessionizer.core.wire.rows import REVISION
from sessionizer.deployment.differences import Difference, OpenState, Side, SinkColumns
from sessionizer.deployment.releases import describe_programs, release_of
from sessionizer.deployment.upgrade_plan import APPLY, UPGRADE, UpgradePlan, UpgradeRequest
from sessionizer.deployment.verdicts import judge_differences
from sessionizer.errors import DamagedFile, NotAccepted, StoreUnreachable
from sessionizer.home.control_store import Store, cached_read
from sessionizer.home.data_files import list_names, read_data_text
from sessionizer.home.names import SESSIONS
from sessionizer.home.roots import DataPath, folder_at
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.fingerprint import CHECKPOINT_FILE, CHECKPOINT_FORMAT, present_fingerprint, read_fingerprint
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, keep_rescale, waiting_migrations
from sessionizer.migrations.declared import describe_migration, migration_digest
from sessionizer.migrations.graph import revisions_before_head
from sessionizer.stream_spec.decisions import check_sql, document_of, spec_fingerprint
from sessionizer.stream_spec.document.rules import Migration
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import Verdict

_CHECKSUM: Final = re.compile(r"\d{20}\.crc")


def running_side(home: StreamHome, lineage: str) -> Side:
    """Read what ``lineage`` runs by. Raises DamagedFile if a record is lost or damaged."""
    files = home.lineage(lineage)
    spec = SPEC_FILE.of(home, lineage).require()
    record = CHECKPOINT_FILE.of(home, lineage).require()
    if spec is None or record is None:
        raise DamagedFile(files.records, "it lacks spec.json or checkpoint.json")
    kept = read_fingerprint(home, lineage)
    if not kept.configuration:
        kept = replace(kept, configuration=read_pinned_settings(files.checkpoint))
    return Side(spec.document, kept, record.checkpoint_format, record.revision)


def present_side(spec: StreamSpec, before: Side) -> Side:
    """Return what a stream would run by: the file's ``spec``, and the programs here, instead of those ``before``."""
    return Side(document_of(spec), present_fingerprint(known=before.fingerprint), CHECKPOINT_FORMAT, REVISION)


def open_state(home: StreamHome, lineage: str) -> OpenState:
    """Read about how many sessions are open, and the types that their columns may have. Raises DamagedFile.

    The number is 0 only if none is open.
    """
    file = home.lineage(lineage).open_sessions
    learned = OpenSessions(file) if Store(file).exists() else None
    count = None if learned is None else learned.total or learned.most
    return replace(uncounted_state(home, lineage), sessions=count)


def uncounted_state(home: StreamHome, lineage: str) -> OpenState:
    """Read the types that the columns of open sessions may have. Raises DamagedFile."""
    types = TYPES_FILE.of(home, lineage).require()
    return OpenState(types=types.payload if types is not None else {})


def sink_columns(home: StreamHome, spec: StreamSpec) -> SinkColumns:
    """Read the columns of the table of sessions that ``spec`` writes to, as far as its log tells at a glance."""
    table = folder_at(home.table_locations(spec.sink.path)[SESSIONS])
    return cached_read(table, "columns", lambda: _read_columns(table / "_delta_log"))


def _read_columns(log: DataPath) -> SinkColumns:
    try:
        newest = max(filter(_CHECKSUM.fullmatch, list_names(log)), default=None)
        if newest is None:
            return SinkColumns()
        metadata: dict[str, Any] = json.loads(read_data_text(log / newest))["metadata"]
        return SinkColumns.of(json.loads(metadata["schemaString"]), metadata.get("configuration") or {})
    # Spark asks the table before the plan is carried out
    except (OSError, StoreUnreachable, ValueError, KeyError, TypeError):
        return SinkColumns()


def plan_upgrade(
    home: StreamHome,
    at: tuple[str, int],
    spec: StreamSpec,
    request: UpgradeRequest,
    same_to_spark: frozenset[str] = frozenset(),
) -> UpgradePlan:
    """Make the plan. ``at``: the lineage and its newest committed batch.

    ``same_to_spark``: fields whose SQL is written otherwise and means the same, as Spark found.

    Raises DamagedFile, InvalidSpec for SQL that no driver would run, and MigrationRefused for a declared migration that
    cannot be applied.
    """
    lineage, batch_id = at
    spec = choose_groups(keep_rescale(home, lineage, spec), request.key_groups)
    pending = waiting_migrations(home, lineage, spec)
    before = running_side(home, lineage)
    now = present_side(spec, before)
    if request.verb != UPGRADE:
        now = replace(before, spec=now.spec)
    state = open_state(home, lineage)
    judged = OpenState(sessions=0) if request.stateless else state
    differences = judge_file(home, (before, now.divide(request.partitions)), spec, judged, pending, same_to_spark)
    return UpgradePlan(
        stream=home.name,
        lineage=lineage,
        batch_id=batch_id,
        fingerprint=spec_fingerprint(spec),
        differences=differences,
        request=request,
        migrations=describe_pending(pending),
        ran_by=describe_programs(before.fingerprint.versions),
        way_back=release_of(home, lineage, now.fingerprint.versions),
        open_sessions=state.sessions,
        bundle=(before.fingerprint.bundle, bundle_of_watch(home)),
    )


def choose_groups(spec: StreamSpec, key_groups: int | None) -> StreamSpec:
    """Return ``spec`` with so many key groups. None leaves their number."""
    return spec if key_groups is None else spec.model_copy(update={"key_groups": key_groups})


def judge_file(
    home: StreamHome,
    sides: tuple[Side, Side],
    spec: StreamSpec,
    state: OpenState,
    pending: Sequence[Migration],
    same_to_spark: frozenset[str] = frozenset(),
) -> tuple[Difference, ...]:
    """Judge the differences between two sides, of which the second is by ``spec``.

    ``pending``: its migrations that the state has not had. ``same_to_spark``: fields whose SQL is written otherwise and
    means the same, as Spark found. Raises InvalidSpec for SQL that no driver would run.
    """
    check_sql(spec)
    differences = judge_differences(
        *sides,
        state,
        tables=sink_columns(home, spec),
        pending=[each.model_dump(mode="json") for each in pending],
        revisions=frozenset(revisions_before_head()),
    )
    same = "Spark makes the same of both texts"
    return tuple(
        replace(each, verdict=Verdict.IN_PLACE, kind="written otherwise", reason=same, remedy="")
        if each.name in same_to_spark and each.verdict is Verdict.PARTIAL
        else each
        for each in differences
    )


def describe_pending(pending: Sequence[Migration]) -> tuple[str, ...]:
    """Describe migrations that open events get, each with the digest of its text."""
    return tuple(f"{each.id} ({migration_digest(each)}): {describe_migration(each)}" for each in pending)


def find_differences(home: StreamHome, lineage: str, spec: StreamSpec) -> tuple[Difference, ...]:
    """Find how ``lineage`` differs from ``spec`` and the programs here, without open sessions and tables.

    A plan has the same differences. Those with an effect in it have one here, and may be judged more gravely.

    Raises DamagedFile, and MigrationRefused for a declared migration that cannot be applied.
    """
    before, spec = running_side(home, lineage), keep_rescale(home, lineage, spec)
    return judge_differences(
        before,
        present_side(spec, before),
        uncounted_state(home, lineage),
        pending=[each.model_dump(mode="json") for each in waiting_migrations(home, lineage, spec)],
        revisions=frozenset(revisions_before_head()),
    )


def require_no_loss(home: StreamHome, lineage: str, spec: StreamSpec) -> None:
    """Raise NotAccepted if open sessions would lack something when a driver simply starts by ``spec``."""
    plan = plan_upgrade(home, (lineage, 0), spec, UpgradeRequest(APPLY))
    if plan.unaccepted:
        raise NotAccepted(home.name, UPGRADE, tuple(each.name for each in plan.unaccepted))
