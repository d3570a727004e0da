"""Steps of the commands, as data. The plan of each command lists them in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sessionizer.control.execution import Step
from sessionizer.control.records.operation_record import OperationStage
from sessionizer.lineage.canary.judge import CanaryTerms


@dataclass(frozen=True, kw_only=True)
class Stop(Step):
    """End of the driver at a batch boundary. The command holds the lease from here on."""

    says: ClassVar = "the driver finishes its batch and ends"
    noted: OperationStage | None = OperationStage.STOPPED
    done_if: ClassVar = OperationStage.STOPPED


@dataclass(frozen=True, kw_only=True)
class Prove(Step):
    """Replay of recorded batches by the new code and spec, compared with the tables. A command may end by it."""

    says: ClassVar = "recorded batches are replayed and compared with the tables, while the stream runs"
    precedes_stop: ClassVar = True


@dataclass(frozen=True, kw_only=True)
class KeepExcludedRanges(Step):
    """Record of the source's excluded ranges. A later try excludes the approved ones."""


@dataclass(frozen=True, kw_only=True)
class KeepSpec(Step):
    """Record of the stream's file. A later try goes on by the approved one, because rows may have changed by then."""


@dataclass(frozen=True, kw_only=True)
class WriteSavepoint(Step):
    """Savepoint of the open events before the change."""

    says: ClassVar = "a canonical savepoint of the open sessions is made"
    noted: OperationStage | None = OperationStage.SAVED
    done_if: ClassVar = OperationStage.SAVED


@dataclass(frozen=True, kw_only=True)
class CopyCheckpoint(WriteSavepoint):
    """Native savepoint before a change in place: a copy of files, because the same checkpoint goes on afterwards."""

    says: ClassVar = "a native savepoint of the open sessions is made"


@dataclass(frozen=True, kw_only=True)
class PrepareTables(Step):
    """Creation of missing tables and columns."""

    says: ClassVar = "missing tables and columns are created"


@dataclass(frozen=True, kw_only=True)
class ReadHistory(Step):
    """Reading of a history. The results are kept until the end."""

    noted: OperationStage | None = OperationStage.TAKEN
    done_if: ClassVar = OperationStage.TAKEN
    settles: ClassVar = True


@dataclass(frozen=True, kw_only=True)
class StartLineage(Step):
    """Batch 0 of a new lineage, with the open events. A try that was killed leaves it to the next for removal."""

    says: ClassVar = "a new lineage begins with every open session, migrated if the file says so"


@dataclass(frozen=True, kw_only=True)
class StartEmptyLineage(StartLineage):
    """Batch 0 of a new lineage without open events."""

    says: ClassVar = "a new lineage begins without an open session"


@dataclass(frozen=True, kw_only=True)
class Compare(Step):
    """Comparison of the new lineage's state with the state that it was given."""

    says: ClassVar = "its state is read back and compared"


@dataclass(frozen=True, kw_only=True)
class SetPosition(Step):
    """Position of the source in the new lineage, and the lineage's own records."""

    says: ClassVar = "the new lineage gets the position in the source"


@dataclass(frozen=True, kw_only=True)
class Canary(Step):
    """Begin of the canary of the new lineage, by ``terms``."""

    says: ClassVar = "its first batches will be compared with the lineage before"
    terms: CanaryTerms


@dataclass(frozen=True, kw_only=True)
class NoteTables(Step):
    """Record of the newest versions of the tables, from which a later command can bring rows back."""


@dataclass(frozen=True, kw_only=True)
class PointOfNoReturn(Step):
    """Check that the rows to bring back are still there. From here on the command can only be completed."""

    noted: OperationStage | None = OperationStage.SEEDED
    done_if: ClassVar = OperationStage.SEEDED


@dataclass(frozen=True, kw_only=True)
class DeleteLaterRows(Step):
    """Deletion of the rows off the new path, and return of the rows on it that an earlier command deleted."""

    says: ClassVar = "rows since the savepoint are deleted"
    noted: OperationStage | None = OperationStage.TAKEN_BACK
    done_if: ClassVar = OperationStage.TAKEN_BACK
    reversible: ClassVar = False


@dataclass(frozen=True, kw_only=True)
class Activate(Step):
    """Activation of a lineage: the decisive change."""

    says: ClassVar = "the new lineage becomes the active one"


@dataclass(frozen=True, kw_only=True)
class NoteErasure(Step):
    """Record of the erased keys, as digests, in the stream's ledger. From here on their events are dropped."""

    says: ClassVar = "the keys are noted as digests, and their events are dropped from now on"
    reversible: ClassVar = False


@dataclass(frozen=True, kw_only=True)
class RemoveCheckpoints(Step):
    """Removal of Spark's files of every lineage but the active one."""

    says: ClassVar = "the checkpoints of the lineages before are removed"


@dataclass(frozen=True, kw_only=True)
class WriteSpec(Step):
    """Change of the spec that the present lineage runs by: the decisive change of an apply in place."""

    says: ClassVar = "the lineage takes over the spec of the file"


@dataclass(frozen=True, kw_only=True)
class NotePrograms(Step):
    """Record of the installed programs in the lineage that goes on."""

    says: ClassVar = "the installed release and versions are recorded in the lineage"


@dataclass(frozen=True, kw_only=True)
class KeepTypes(Step):
    """Record of the types of the new lineage's open events."""


@dataclass(frozen=True, kw_only=True)
class WriteFinishedSessions(Step):
    """Rows of finished sessions in the tables: of a history, or of sessions that were over before a migration."""

    says: ClassVar = "sessions that were over before the migration are written"


def new_lineage(terms: CanaryTerms | None, start: StartLineage = StartLineage()) -> tuple[Step, ...]:
    """Return the steps that make a whole new lineage, before it is activated. ``terms``: of its canary, if any."""
    return (start, Compare(), SetPosition(), *((Canary(terms=terms),) if terms else ()))
