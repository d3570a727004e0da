"""Plan of a compaction of one stream, without the figures of its tables, and the record of the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.control.records.operation_record import pending_operation, require_no_operation
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.home.clock import describe_duration
from sessionizer.home.home_identity import owner_name
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.names import TABLES
from sessionizer.home.record_file import ControlFile
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.data_owner import require_own_data, require_own_home
from sessionizer.lineage.kept_spec import sink_folders
from sessionizer.state.compaction.checkpoints import judge_checkpoints
from sessionizer.state.compaction.retention import Retention, decide_retention, find_needed_versions
from sessionizer.state.lineages.origin import origins_of
from sessionizer.state.savepoints.listing import list_savepoints
from sessionizer.state.savepoints.schedule import Judgement, plan_for_scheduled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.state.savepoints.pruning import PruningVerdict
    from sessionizer.stream_spec.document.stream import StreamSpec


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table of the stream, which may not be there, and the ``owner`` that alone may write it."""

    name: str
    location: str
    owner: str


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """Tables to compact, the ``retention`` of their old files, and a decision on each checkpoint and savepoint.

    ``savepoints``: only scheduled ones, which their own schedule removes by the same rule.
    """

    stream: str
    tables: tuple[OwnedTable, ...]
    retention: Retention
    checkpoints: tuple[PruningVerdict, ...]
    savepoints: tuple[PruningVerdict, ...]

    @property
    def checkpoints_that_go(self) -> list[str]:
        """The lineages whose checkpoints are removed."""
        return [each.id for each in self.checkpoints if each.goes]


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
    return CompactionPlan(
        stream=home.name,
        tables=tuple(_places(home, folder)),
        retention=decide_retention(keep_ms, find_needed_versions(savepoints), now),
        checkpoints=tuple(judge_checkpoints(home, keep_ms, now)),
        savepoints=tuple(expired),
    )


def judge_compaction(home: StreamHome, every_ms: int, now: int) -> Judgement:
    """Judge whether a compaction of the stream is due. Raises DamagedFile, ControlUnreachable.

    None is due while an operation is not over. ``now`` is epoch ms.
    """
    if active_lineage(home) is None:
        return Judgement(due=False, because="it never ran")
    pending = pending_operation(home)
    if pending is not None:
        return Judgement(due=False, because=f"{pending.verb} {pending.id} is not over")
    last = COMPACTION_FILE.of(home).require()
    if last is None:
        return Judgement(due=True, because="it had none")
    return Judgement(
        due=now - last.at >= every_ms, because=f"the last one began {describe_duration(now - last.at)} ago"
    )


def _places(home: StreamHome, folder: str | None) -> list[OwnedTable]:
    """Return the tables in the folder that the stream writes to, and in each that it wrote to before."""
    owner = owner_name(home.name, home.control_base)
    folders = dict.fromkeys((folder, *sink_folders(home, origins_of(home))))
    return [OwnedTable(name, home.table_locations(each)[name], owner) for each in folders for name in TABLES]
