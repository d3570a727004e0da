"""Options of the canary of a new lineage, which most commands share. Their earlier names are in ``cli/app.py``."""

from __future__ import annotations

from typing import Any, Final

from sessionizer.errors import InvalidSpec
from sessionizer.lineage.trial.judging import BATCHES, Terms
from sessionizer.state.commands.command import option

_FLAG: Final = "--canary"
BACK_IF_UNFIT: Final = "--roll-back-if-failed"


def trial_option() -> Any:  # noqa: ANN401  a field
    """Declare the number of batches of the canary."""
    return option(
        _FLAG,
        "Batches of the canary",
        f"number of the new lineage's first batches that are compared with the lineage before. 0: none, else {BATCHES}",
        default=BATCHES,
        min=0,
        max=1000,
    )


def back_if_unfit_option() -> Any:  # noqa: ANN401  a field
    """Declare the automatic rollback of a lineage that fails its canary."""
    return option(
        BACK_IF_UNFIT,
        "Roll back if failed",
        "roll back to the lineage before, without asking, if the new one fails its canary",
        default=False,
    )


def terms_of(batches: int, *, back_if_unfit: bool = False, like_before: bool = True) -> Terms | None:
    """Return the terms of a new lineage's trial, or None for no trial. Raises InvalidSpec.

    ``like_before``: the new lineage should make the same sessions of its events as the one that is left.
    """
    if batches == 0 and back_if_unfit:
        raise InvalidSpec(_FLAG, batches, f"at least 1, because {BACK_IF_UNFIT} is given")
    if batches == 0:
        return None
    return Terms(batches=batches, goes_back=back_if_unfit, judges_sessions=like_before)
