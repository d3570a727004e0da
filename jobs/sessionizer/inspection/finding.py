"""Damage of a checkpoint: the file, its problem, the effect and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
class Step:
    """Step of a remedy: remove a file, or put a copy of ``source`` in its place.

    Names are relative to the checkpoint.
    """

    file: str
    source: str | None = None

    def __str__(self) -> str:
        return f"remove {self.file}" if self.source is None else f"copy {self.source} to {self.file}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Damage of one file. ``steps``: the part of the remedy that can be done by hand, in this order, if any."""

    file: str
    wrong: str
    effect: Effect
    follows: str
    remedy: str
    steps: tuple[Step, ...] = ()
