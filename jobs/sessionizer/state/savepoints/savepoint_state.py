"""State of a savepoint by the files that exist: complete, failed, abandoned, being made or being removed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sessionizer.home.clock import HOUR

UNSEEN_FOR_MS: Final = 6 * HOUR
"""A process of another machine counts as at work for this long, because it cannot be checked from here."""


class SavepointState(StrEnum):
    """State of a savepoint. A stream can resume only from a complete one."""

    COMPLETE = "complete"
    MAKING = "being made"
    FAILED = "failed"
    ABANDONED = "abandoned"
    """The process that made it was killed."""
    DAMAGED = "damaged"
    """Its manifest cannot be read, or is not as it was written."""
    REMOVING = "being removed"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts about a savepoint. ``manifest``: whether it is sound, None if there is none.

    ``begun_at``: epoch ms, None if unknown. ``maker_lives``: None if that cannot be told from here.
    """

    manifest: bool | None
    failed: bool
    condemned: bool
    begun_at: int | None
    maker_lives: bool | None


def judge_state(evidence: Evidence, now: int) -> SavepointState:
    """Return the state of the savepoint at ``now`` (epoch ms)."""
    if evidence.condemned:
        return SavepointState.REMOVING
    if evidence.manifest is not None:
        return SavepointState.COMPLETE if evidence.manifest else SavepointState.DAMAGED
    if evidence.failed:
        return SavepointState.FAILED
    at_work = is_at_work(evidence.maker_lives, evidence.begun_at, now)
    return SavepointState.MAKING if at_work else SavepointState.ABANDONED


def is_at_work(lives: bool | None, since: int | None, now: int) -> bool:  # noqa: FBT001  an answer of is_alive
    """Whether a process that ``lives`` (None: unknown) and began at ``since`` must be taken to be at work still."""
    if lives is None:
        return since is not None and now - since < UNSEEN_FOR_MS
    return lives
