"""Verdict on a difference: what becomes of open sessions when the stream goes on with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sessionizer.counts import count_text
from sessionizer.stream_spec.effect import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sessionizer.lineage.fingerprint import Fingerprint
    from sessionizer.stream_spec.decisions import Change, Document


ACCEPTED_BY_NAME: Final = frozenset({Verdict.PARTIAL, Verdict.UNKNOWN})
"""Verdicts that are carried out only if a user accepts the difference by its name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference with its ``name`` (a field of the spec, a program, a setting), its ``kind`` in words, its verdict.

    ``reason``: the effect on open sessions. ``remedy``: what to do to lose nothing, or to get it at all.
    """

    name: str
    kind: str
    before: Any
    now: Any
    verdict: Verdict
    reason: str = ""
    remedy: str = ""

    @property
    def must_be_accepted(self) -> bool:
        """Whether it is carried out only if a user accepts it by name."""
        return self.verdict in ACCEPTED_BY_NAME

    def to_json(self) -> dict[str, Any]:
        """Return the difference for programs."""
        return {**asdict(self), "verdict": str(self.verdict)}

    @property
    def said(self) -> tuple[str, ...]:
        """Sentences about it: the reason, then the remedy."""
        return tuple(each for each in (self.reason, self.remedy) if each)

    @property
    def line(self) -> str:
        """Name the difference in one line."""
        return f"{self.verdict:<12} {self.name}: {_shown(self.before)} → {_shown(self.now)} ({self.kind})"


def describe_differences(differences: Iterable[Difference]) -> Iterator[str]:
    """Describe the differences for a reader of the plan. A sentence about several of them is said once, after them."""
    alike: dict[tuple[str, ...], list[Difference]] = {}
    for each in differences:
        alike.setdefault(each.said or (each.name,), []).append(each)
    for found in alike.values():
        yield from (each.line for each in found)
        yield from (f"{'':<12} {sentence}" for sentence in found[0].said)


@dataclass(frozen=True, slots=True)
class Side:
    """Side of the comparison: the ``spec`` as JSON, the fingerprint, format and revision of the state."""

    spec: Document
    fingerprint: Fingerprint
    checkpoint_format: int
    revision: str


@dataclass(frozen=True, slots=True)
class OpenState:
    """State at the change: about so many open ``sessions``, None if unseen, and every type that a payload column had.

    ``types``: by column, oldest first, as Spark writes a type in JSON.
    """

    sessions: int | None = None
    types: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no session is open, so that no change can harm one."""
        return self.sessions == 0

    @property
    def counted(self) -> str:
        """Name the sessions of the state for a sentence."""
        if self.sessions is None:
            return "the open sessions (not counted here)"
        return f"{'' if self.sessions == 1 else 'about '}{count_text(self.sessions, 'open session')}"


def judge_change(change: Change, kind: str, verdict: Verdict, reason: str = "", remedy: str = "") -> Difference:
    """Make the difference of a changed field."""
    return Difference(change.field, kind, change.before, change.now, verdict, reason, remedy)


def _shown(value: object) -> str:
    text = "(none)" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_LONGEST: Final = 80
