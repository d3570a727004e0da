"""Steps of the commands, as data. The plan of each command lists them in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sessionizer.control.execution import Step
from sessionizer.control.records.operation_record import OperationStage
from sessionizer.lineage.canary.judge import CanaryTerms


class Stop(Step):
    """End of the driver at a batch boundary. The command holds the lease from here on."""

    says: ClassVar = "the driver finishes its batch and ends"
    noted: ClassVar = OperationStage.STOPPED


class Prove(Step):
    """Replay of recorded batches by the new code and spec, compared with the tables. A command may end by it."""

    says: ClassVar = "recorded batches are replayed and compared with the tables, while the stream runs"
    precedes_stop: ClassVar = True


class KeepExcludedRanges(Step):
    """Record of the source's excluded ranges. A later try excludes the approved ones."""


class KeepSpec(Step):
    """Record of the stream's file. A later try goes on by the approved one, because rows may have changed by then."""


class WriteSavepoint(Step):
    """Savepoint of the open events before the change."""

    says: ClassVar = "a canonical savepoint of the open sessions is made"
    noted: ClassVar = OperationStage.SAVED


class CopyCheckpoint(WriteSavepoint):
    """Native savepoint before a change in place: a copy of files, because the same checkpoint goes on afterwards."""

    says: ClassVar = "a native savepoint of the open sessions is made"


class PrepareTables(Step):
    """Creation of missing tables and columns."""

    says: ClassVar = "missing tables and columns are created"


class ReadHistory(Step):
    """Reading of a history. The results are kept until the end."""

    noted: ClassVar = OperationStage.TAKEN
    settles: ClassVar = True


class StartLineage(Step):
    """Batch 0 of a new lineage, with the open events. A try that was killed leaves it to the next for removal."""

    says: ClassVar = "a new lineage begins with every open session, migrated if the file says so"


class StartEmptyLineage(StartLineage):
    """Batch 0 of a new lineage without open events."""

    says: ClassVar = "a new lineage begins without an open session"


class Compare(Step):
    """Comparison of the new lineage's state with the state that it was given."""

    says: ClassVar = "its state is read back and compared"


class SetPosition(Step):
    """Position of the source in the new lineage, and the lineage's own records."""

    says: ClassVar = "the new lineage gets the position in the source"


@dataclass(frozen=True, kw_only=True)
class Canary(Step):
    """Begin of the canary of the new lineage, by ``terms``."""

    says: ClassVar = "its first batches will be compared with the lineage before"
    terms: CanaryTerms


class NoteTables(Step):
    """Record of the newest versions of the tables, from which a later command can bring rows back."""


class PointOfNoReturn(Step):
    """Check that the rows to bring back are still there. From here on the command can only be completed."""

    noted: ClassVar = OperationStage.SEEDED


class DeleteLaterRows(Step):
    """Deletion of the rows off the new path, and return of the rows on it that an earlier command deleted."""

    says: ClassVar = "rows since the savepoint are deleted"
    noted: ClassVar = OperationStage.TAKEN_BACK
    reversible: ClassVar = False


class Activate(Step):
    """Activation of a lineage: the decisive change."""

    says: ClassVar = "the new lineage becomes the active one"


class NoteErasure(Step):
    """Record of the erased keys, as digests, in the stream's ledger. From here on their events are dropped."""

    says: ClassVar = "the keys are noted as digests, and their events are dropped from now on"
    reversible: ClassVar = False


class RemoveCheckpoints(Step):
    """Removal of Spark's files of every lineage but the active one."""

    says: ClassVar = "the checkpoints of the lineages before are removed"


class WriteSpec(Step):
    """Change of the spec that the present lineage runs by: the decisive change of an apply in place."""

    says: ClassVar = "the lineage takes over the spec of the file"


class NotePrograms(Step):
    """Record of the installed programs in the lineage that goes on."""

    says: ClassVar = "the installed release and versions are recorded in the lineage"


class KeepTypes(Step):
    """Record of the types of the new lineage's open events."""


class WriteFinishedSessions(Step):
    """Rows of finished sessions in the tables: of a history, or of sessions that were over before a migration."""

    says: ClassVar = "sessions that were over before the migration are written"


def new_lineage(terms: CanaryTerms | None, start: StartLineage | None = None) -> tuple[Step, ...]:
    """Return the steps that make a whole new lineage, before it is activated. ``terms``: of its canary, if any."""
    return (start or StartLineage(), Compare(), SetPosition(), *((Canary(terms=terms),) if terms else ()))
