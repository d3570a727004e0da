"""Options of the canary of a new lineage, which most commands share."""

from __future__ import annotations

from typing import Any, Final

from sessionizer.errors import InvalidSpec
from sessionizer.lineage.canary.judge import BATCHES, CanaryTerms
from sessionizer.state.commands.command import option

_FLAG: Final = "--canary"
ROLL_BACK_IF_FAILED: Final = "--roll-back-if-failed"


def canary_option() -> Any:  # noqa: ANN401  a field
    """Declare the number of batches of the canary."""
    return option(
        _FLAG,
        "Batches of the canary",
        f"number of the new lineage's first batches that are compared with the lineage before. 0: none, else {BATCHES}",
        default=BATCHES,
        min=0,
        max=1000,
    )


def roll_back_option() -> Any:  # noqa: ANN401  a field
    """Declare the automatic rollback of a lineage that fails its canary."""
    return option(
        ROLL_BACK_IF_FAILED,
        "Roll back if failed",
        "roll back to the lineage before, without asking, if the new one fails its canary",
        default=False,
    )


def terms_of(batches: int, *, roll_back_if_failed: bool = False, like_before: bool = True) -> CanaryTerms | None:
    """Return the terms of a new lineage's canary, or None for no canary. Raises InvalidSpec.

    ``like_before``: the new lineage should make the same sessions of its events as the one that is left.
    """
    if batches == 0 and roll_back_if_failed:
        raise InvalidSpec(_FLAG, batches, f"at least 1, because {ROLL_BACK_IF_FAILED} is given")
    if batches == 0:
        return None
    return CanaryTerms(batches=batches, goes_back=roll_back_if_failed, judges_sessions=like_before)
