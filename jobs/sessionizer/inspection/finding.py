"""A damage of a checkpoint: the file, what is wrong with it, what follows, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What a damage does to a query that starts from the checkpoint."""

    STOPS = "the query does not start, or dies at once"
    WRONG = "the query starts, and what it makes is wrong"
    PAST = "the query goes on; an earlier batch cannot be read or returned to"
    NONE = "nothing: Spark does without it"

    @property
    def is_harmful(self) -> bool:
        """Whether something has to be done before the next start."""
        return self in {Effect.STOPS, Effect.WRONG}


@dataclass(frozen=True, slots=True)
class Step:
    """To remove a file, or to put a copy of ``source`` in its place. Names are from the checkpoint on."""

    file: str
    source: str | None = None

    def __str__(self) -> str:
        return f"remove {self.file}" if self.source is None else f"copy {self.source} to {self.file}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One damage. ``steps``: the remedy as far as it can be done by hand, in this order; none where it cannot."""

    file: str
    wrong: str
    effect: Effect
    follows: str
    remedy: str
    steps: tuple[Step, ...] = ()
