"""Plan of a compaction: files of tables and checkpoints that are too old or too small. Pure, but for the removal.

A table's file is old once no later version has it, because OPTIMIZE or a command rewrote it. A restore may bring rows
back from the version that a savepoint names, so all files of that version must still be there. They became old after
the savepoint's batch began. So the age of that batch is enough.

Of a checkpoint only Spark's files go. The records of a lineage stay, because the path of the active one is made of
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from sessionizer.checkpoint.log_entries import commit_log, read_last_commit, read_planned_batch
from sessionizer.control.records.operation_record import pending_operation, require_no_operation
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.home.clock import HOUR, describe_duration
from sessionizer.home.data_files import list_entries, remove_data, remove_tree
from sessionizer.home.home_identity import owner_name
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.names import TABLES
from sessionizer.home.record_file import ControlFile
from sessionizer.home.roots import DataPath
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, read_lineage, require_own_data, require_own_home
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.kept_spec import sink_folders
from sessionizer.state.lineages.origin import find_abandoned_lineages, find_lineages, lineage_before, origins_of
from sessionizer.state.savepoints.listing import PruningVerdict, Savepoint, list_savepoints
from sessionizer.state.savepoints.schedule import Judgement, judge_age, plan_for_scheduled
from sessionizer.stream_spec.document.names import MILLISECONDS_OF
from sessionizer.stream_spec.document.stream import WEEK, StreamSpec

LOG_KEPT_MS: Final = 30 * MILLISECONDS_OF["day"]
"""Time for which Delta keeps a table's log by default. No reader can go to an older version, whatever files remain."""
CLOCKS_DIFFER_MS: Final = HOUR
"""Allowance for clocks of machines that differ, and for a batch that is written just now."""


@dataclass(frozen=True, slots=True)
class NeededVersion:
    """A savepoint ``id`` that needs the files which a table had at ``since`` (epoch ms)."""

    id: str
    since: Moment


@dataclass(frozen=True, slots=True)
class Retention(JsonRecord):
    """Time in ``hours`` for which old files stay. ``is_short``: below Delta's 7 days. ``out_of_reach``: savepoints."""

    hours: int
    because: str
    is_short: bool
    out_of_reach: tuple[str, ...] = ()


def find_needed_versions(savepoints: Iterable[Savepoint]) -> list[NeededVersion]:
    """Return what each savepoint needs that is complete or being made. The others bring nothing back."""
    found = []
    for each in savepoints:
        if each.is_complete and each.manifest is not None:
            found.append(NeededVersion(each.id, each.manifest.batch_at))
        elif each.manifest is None and each.begun is not None:
            found.append(NeededVersion(each.id, each.begun.at))
    return found


def decide_retention(keep_ms: int, needed: Iterable[NeededVersion], now: int) -> Retention:
    """Decide for how long old files stay: ``keep_ms``, or longer for the oldest savepoint within reach."""
    listed = sorted(needed, key=lambda each: (each.since, each.id))
    beyond = tuple(each.id for each in listed if now - each.since > LOG_KEPT_MS)
    within = next((each for each in listed if each.id not in beyond), None)
    because, kept_ms = "compaction.keep", keep_ms
    if within is not None and (needs_ms := now - within.since + CLOCKS_DIFFER_MS) > keep_ms:
        because, kept_ms = f"savepoint {within.id} may bring rows back from then", needs_ms
    return Retention(-(-kept_ms // HOUR), because, kept_ms < WEEK, beyond)


@dataclass(frozen=True, slots=True)
class OldCheckpoint:
    """A checkpoint of ``lineage`` as a compaction sees it.

    ``needed``: why it must stay, whatever its age. ``newest_at``: when its newest batch began (epoch ms), None if it
    has none. ``is_cut``: it ran batches, and their commits are gone, because a removal was killed.
    """

    lineage: str
    needed: str | None
    newest_at: int | None
    is_cut: bool = False


def judge_checkpoint(checkpoint: OldCheckpoint, keep_ms: int, now: int) -> PruningVerdict:
    """Decide whether a checkpoint goes: it is not needed, and its newest batch is older than ``keep_ms``. Pure."""
    lineage = checkpoint.lineage
    if checkpoint.needed is not None:
        return PruningVerdict(lineage, goes=False, because=checkpoint.needed)
    if checkpoint.newest_at is None:
        because = "an earlier removal was cut short" if checkpoint.is_cut else "it has no batch"
        return PruningVerdict(lineage, goes=checkpoint.is_cut, because=because)
    age = now - checkpoint.newest_at
    return PruningVerdict(lineage, goes=age > keep_ms, because=f"its newest batch began {describe_duration(age)} ago")


def judge_checkpoints(home: StreamHome, keep_ms: int, now: int) -> list[PruningVerdict]:
    """Decide on each lineage's checkpoint, none before one is active. Reads only. Raises DamagedFile, OSError."""
    if read_lineage(home) is None:
        return []
    needed = _find_needed(home)
    old = [_old_checkpoint(home, each, needed.get(each)) for each in find_lineages(home)]
    return [judge_checkpoint(each, keep_ms, now) for each in old]


def remove_checkpoint(home: StreamHome, lineage: str, keep_ms: int, now: int) -> str | None:
    """Remove Spark's files of ``lineage``, or return why it is needed since the plan was made. Raises OSError."""
    verdict = judge_checkpoint(_old_checkpoint(home, lineage, _find_needed(home).get(lineage)), keep_ms, now)
    if not verdict.goes:
        return verdict.because
    remove_spark_files(home, lineage)
    return None


def remove_spark_files(home: StreamHome, lineage: str) -> None:
    """Remove Spark's files of ``lineage``, which nothing needs. Harmless when repeated. Raises OSError.

    The commits go first, the newest first. A rollback compares the newest one, so it never takes half a checkpoint for
    a whole one.
    """
    commits = [each for each in list_entries(commit_log(home.checkpoint(lineage))) if each.name.isdigit()]
    for commit in sorted(commits, key=lambda each: int(each.name), reverse=True):
        remove_data(commit)
    remove_tree(home.lineage(lineage).root)


def _find_needed(home: StreamHome) -> dict[str, str]:
    """Return the reason for each lineage whose checkpoint must stay, whatever its age. Raises DamagedFile, OSError."""
    active = read_lineage(home)
    found = dict.fromkeys(find_abandoned_lineages(home), "the next command removes it, because a killed one left it")
    if active is not None:
        before = lineage_before(home, active.lineage)
        if before is not None:
            found[before] = "a rollback returns to it"
        found[active.lineage] = "it is active"
    return found


def _old_checkpoint(home: StreamHome, lineage: str, needed: str | None) -> OldCheckpoint:
    checkpoint = home.checkpoint(lineage)
    newest = read_last_commit(checkpoint)
    if newest is None:
        was_run = BatchLog(home.lineage(lineage).batches).has_batches
        return OldCheckpoint(lineage, needed, None, is_cut=was_run)
    try:
        return OldCheckpoint(lineage, needed, read_planned_batch(checkpoint, newest).at_ms)
    except (OSError, ValueError) as error:
        return OldCheckpoint(lineage, needed or f"it cannot be read: {error}", None)


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table that may be absent, and its ``owner``. Rows of before the day (UTC) ``kept_from`` leave."""

    name: str
    location: str
    owner: str
    kept_from: date | None = None


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Tables, the ``retention`` of their old files, and decisions on checkpoints and scheduled savepoints."""

    stream: str
    tables: tuple[OwnedTable, ...]
    retention: Retention
    checkpoints: tuple[PruningVerdict, ...]
    savepoints: tuple[PruningVerdict, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRecord(JsonRecord):
    """The last compaction that came to its end. It began ``at`` (epoch ms)."""

    at: Moment


COMPACTION_FILE: Final = ControlFile("compaction.json", CompactionRecord)


def plan_compaction(home: StreamHome, spec: StreamSpec, elsewhere: Sequence[DataPath], now: int) -> CompactionPlan:
    """Plan the compaction of a stream. Reads only. ``spec``: of its file, whose blocks for such work hold at once.

    ``elsewhere``: more folders with savepoints of the stream. Raises OperationPending, because a command changes or
    copies the tables, HomeCopied, DataOwned, DamagedFile, ControlUnreachable, OSError.
    """
    require_no_operation(home)
    require_own_data(home)
    folder = spec_in_force(home, spec).sink.path
    require_own_home(home, folder)
    keep_ms = spec.compaction.keep_ms
    savepoints = [each for place in (home.savepoints, *elsewhere) for each in list_savepoints(place, now)]
    expired = plan_for_scheduled(home, spec.savepoints, now)[1] if spec.savepoints.every_ms is not None else ()
    owner, kept_from = owner_name(home.name, home.control_base), kept_days(spec, now)
    folders = dict.fromkeys((folder, *sink_folders(home, origins_of(home))))  # also those that it wrote to before
    places = [(name, home.table_locations(each)[name]) for each in folders for name in TABLES]
    return CompactionPlan(
        stream=home.name,
        tables=tuple(OwnedTable(name, place, owner, kept_from.get(name)) for name, place in places),
        retention=decide_retention(keep_ms, find_needed_versions(savepoints), now),
        checkpoints=tuple(judge_checkpoints(home, keep_ms, now)),
        savepoints=tuple(expired),
    )


def judge_compaction(home: StreamHome, every_ms: int, now: int) -> Judgement:
    """Judge whether a compaction is due: not during an operation. Raises DamagedFile, ControlUnreachable."""
    if active_lineage(home) is None:
        return Judgement(due=False, because="it never ran")
    pending = pending_operation(home)
    if pending is not None:
        return Judgement(due=False, because=f"{pending.verb} {pending.id} is not over")
    last = COMPACTION_FILE.of(home).require()
    if last is None:
        return Judgement(due=True, because="it had none")
    return judge_age(every_ms, last.at, now, "the last one began")


def kept_days(spec: StreamSpec, now: int) -> dict[str, date]:
    """Return the day (UTC) of each table before which its rows leave at ``now`` (epoch ms). Pure."""
    ages = spec.retention.ages
    return {table: datetime.fromtimestamp((now - age) / 1000, UTC).date() for table, age in ages.items()}
