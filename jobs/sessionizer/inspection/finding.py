"""Damage of a checkpoint: the file, its problem, the effect and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.files import hadoop_file
from sessionizer.checkpoint.names import COMMITS

if TYPE_CHECKING:
    from sessionizer.checkpoint.files import Files
    from sessionizer.inspection.checkpoint_read import Checkpoint

GONE: Final = "it is gone"
ELSEWHERE: Final = (
    "put the file back from a copy. Without a copy, continue in a new checkpoint: with `sessionizer restore` for a "
    "stream of ours, else from the source's beginning"
)
LEAVE: Final = "leave it: Spark removes it in time"


class Effect(StrEnum):
    """Effect of a damage on a query that starts from the checkpoint."""

    STOPS = "the query does not start, or fails at once"
    WRONG = "the query starts, but its results are wrong"
    PAST = "the query continues, but an earlier batch cannot be read or restored"
    NONE = "no effect, because Spark does not need it"

    @property
    def is_harmful(self) -> bool:
        """Whether a user must repair it before the next start."""
        return self in {Effect.STOPS, Effect.WRONG}


@dataclass(frozen=True, slots=True)
class RemedyStep:
    """Step of a remedy: remove a file, or put a copy of ``source`` in its place.

    Names are relative to the checkpoint.
    """

    file: str
    source: str | None = None

    def __str__(self) -> str:
        return f"remove {self.file}" if self.source is None else f"copy {self.source} to {self.file}"


@dataclass(frozen=True, slots=True)
class CheckpointDamage:
    """Damage of one file. ``steps``: the part of the remedy that can be done by hand, in this order, if any."""

    file: str
    wrong: str
    effect: Effect
    follows: str
    remedy: str
    steps: tuple[RemedyStep, ...] = ()


def removal_steps(files: Files, *names: str) -> tuple[RemedyStep, ...]:
    """Return the steps that remove files, with Hadoop's checksums of them."""
    wanted = [each for name in names for each in (name, hadoop_file(name)) if each in files.sizes]
    return tuple(RemedyStep(name) for name in wanted)


def list_batch_files(checkpoint: Checkpoint, batch: int) -> list[str]:
    """List the files that say that the newest batch is over, and in format 1 its state files.

    In format 1 the names are the same for every try of a batch. A snapshot of that batch would pass for one of the
    batch that runs in its place.
    """
    stale = [
        file.name
        for there in checkpoint.stores.values()
        for file in there
        if file.version > batch and checkpoint.state_format == 1
    ]
    return [f"{COMMITS}/{batch}", *stale]


def missing_checksum(checksum: str) -> CheckpointDamage:
    """Return the finding about a missing checksum of Spark's."""
    return CheckpointDamage(
        checksum, GONE, Effect.NONE, "a change of the file beside it would not be noticed", "leave it"
    )
