"""Plan of an upgrade or an apply, from the records of a lineage and this installation: no Spark, nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.airflow_records import bundle_of_watch
from sessionizer.deployment.releases import describe_programs, release_of
from sessionizer.deployment.running_side import open_state, present_side, running_side, sink_columns, uncounted_state
from sessionizer.deployment.upgrade_plan import APPLY, UPGRADE, UpgradePlan, UpgradeRequest
from sessionizer.deployment.verdicts.judge import judge_differences
from sessionizer.deployment.verdicts.verdict import OpenState
from sessionizer.errors import NotAccepted
from sessionizer.lineage.applied_migrations import waiting_migrations
from sessionizer.lineage.kept_spec import keep_rescale
from sessionizer.migrations.compiled import describe_migration
from sessionizer.migrations.graph import revisions_before_head
from sessionizer.migrations.pending import migration_digest
from sessionizer.stream_spec.decisions import spec_fingerprint
from sessionizer.stream_spec.effect import Verdict
from sessionizer.stream_spec.sql_check import check_sql

if TYPE_CHECKING:
    from sessionizer.deployment.verdicts.verdict import Difference
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.stream import StreamSpec


_SAME: Final = "Spark makes the same of both texts"


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
    check_sql(spec)
    lineage, batch_id = at
    spec = keep_rescale(home, lineage, spec)
    pending = waiting_migrations(home, lineage, spec)
    before = running_side(home, lineage)
    now = present_side(spec, before)
    if request.verb != UPGRADE:
        now = replace(before, spec=now.spec)
    state = open_state(home, lineage)
    differences = judge_differences(
        before,
        now,
        OpenState(sessions=0) if request.stateless else state,
        tables=sink_columns(home, spec),
        pending=[each.model_dump(mode="json") for each in pending],
        revisions=frozenset(revisions_before_head()),
    )
    return UpgradePlan(
        stream=home.name,
        lineage=lineage,
        batch_id=batch_id,
        fingerprint=spec_fingerprint(spec),
        differences=tuple(
            replace(each, verdict=Verdict.IN_PLACE, kind="written otherwise", reason=_SAME, remedy="")
            if each.name in same_to_spark and each.verdict is Verdict.PARTIAL
            else each
            for each in differences
        ),
        request=request,
        migrations=tuple(f"{each.id} ({migration_digest(each)}): {describe_migration(each)}" for each in pending),
        ran_by=describe_programs(before.fingerprint.versions),
        way_back=release_of(home, lineage, now.fingerprint.versions),
        open_sessions=state.sessions,
        bundle=(before.fingerprint.bundle, bundle_of_watch(home)),
    )


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
        raise NotAccepted(home.name, UPGRADE, [each.name for each in plan.unaccepted])
