"""Plan of an upgrade, as data: the differences with their verdicts, the steps, and what a rollback can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sessionizer.control.plan_changes import DigestOfDecided
from sessionizer.counts import count_text
from sessionizer.deployment.differences import (
    Difference,
    count_verdicts,
    decided_differences,
    describe_differences,
    describe_hindrance,
    refusal_of,
    refused,
    unaccepted,
)
from sessionizer.deployment.releases import ReleaseChoice
from sessionizer.errors import InvalidSpec, NotAccepted
from sessionizer.lineage.canary.judge import USUAL, CanaryTerms, digest_terms
from sessionizer.lineage.fingerprint import ENGINE
from sessionizer.stream_spec.effect import Verdict

UPGRADE: Final = "upgrade"
APPLY: Final = "apply"


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """Request of a user. ``verb``: ``apply`` is for the spec alone. ``accepted``: differences, by name.

    ``anew``: a new lineage is wanted, whatever changes. ``canary``: the canary of a new lineage, None for no canary.
    ``prove``: it is done only if a replay explains every row. ``stateless``: open sessions are left behind.
    ``key_groups`` and ``partitions`` divide the state anew. None leaves the first to the spec, and the other as it is.
    """

    verb: str = UPGRADE
    accepted: tuple[str, ...] = ()
    anew: bool = False
    canary: CanaryTerms | None = USUAL
    prove: bool = False
    stateless: bool = False
    key_groups: int | None = None
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class UpgradePlan(DigestOfDecided):
    """Plan that ``stream`` goes on by a spec of ``fingerprint`` and by the programs that are installed here.

    It goes on after ``batch_id`` of ``lineage`` or a later batch. ``migrations``: those that open events get, in words.
    ``ran_by``: versions of the lineage, which a rollback needs, and ``way_back`` where they are. ``open_sessions``:
    about so many, None if unseen. ``bundle``: DAG bundle of the lineage's newest driver, and that of the watch now.
    ``steps``: what each step of the command does, by its name, in order, for readers. The command fills them in.
    """

    stream: str
    lineage: str
    batch_id: int
    fingerprint: str
    differences: tuple[Difference, ...]
    request: UpgradeRequest = field(default_factory=UpgradeRequest)
    migrations: tuple[str, ...] = ()
    ran_by: str = ""
    way_back: ReleaseChoice = field(default_factory=ReleaseChoice)
    open_sessions: int | None = None
    bundle: tuple[str | None, str | None] = (None, None)
    steps: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to do. A difference without effect is not written anywhere."""
        return self.request.stateless or any(each.verdict is not Verdict.NONE for each in self.differences)

    @property
    def anew(self) -> bool:
        """Whether it goes on in a new lineage.

        A line of the engine that was never tested does, because then the old lineage stays for the old line.
        """
        other_engine = any(each.name in ENGINE and each.verdict is Verdict.UNKNOWN for each in self.differences)
        migrates = any(each.verdict is Verdict.MIGRATE for each in self.differences)
        return self.request.anew or self.request.stateless or migrates or other_engine

    @property
    def refused(self) -> tuple[Difference, ...]:
        """The differences that no command can take as they are."""
        return refused(self.differences)

    @property
    def unaccepted(self) -> tuple[Difference, ...]:
        """The differences that a user must accept by name and has not."""
        return unaccepted(self.differences, self.request.accepted)

    @property
    def is_possible(self) -> bool:
        """Whether it can be carried out."""
        return self.changes_something and not self.refused and not self.unaccepted

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers.

        Counts are not in it, because the stream runs on: a verdict is judged again when the plan is carried out.
        """
        on_canary = digest_terms(self.request.canary) if self.anew else {}
        decided = {
            "verb": self.request.verb,
            "stream": self.stream,
            "lineage": self.lineage,
            "fingerprint": self.fingerprint,
            "differences": decided_differences(self.differences),
            "accepted": sorted(self.request.accepted),
            "anew": self.request.anew,
        }
        migrated = {"migrations": self.migrations} if self.migrations else {}
        asked = {name: True for name in ("prove", "stateless") if getattr(self.request, name)}
        return {**decided, **on_canary, **migrated, **asked}

    @property
    def refusal(self) -> InvalidSpec | NotAccepted | None:
        """Error of the first refused difference, else of those that lack a user's consent. None if there is none."""
        return refusal_of(self.stream, self.request.verb, self.differences, self.request.accepted)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "stream": self.stream,
            "lineage": self.lineage,
            "batch_id": self.batch_id,
            "open_sessions": self.open_sessions,
            "differences": [each.to_json() for each in self.differences],
            "accepted": list(self.request.accepted),
            "unaccepted": [each.name for each in self.unaccepted],
            "anew": self.anew,
            "stateless": self.request.stateless,
            "migrations": list(self.migrations),
            "steps": list(self.steps),
            "rollback": self.rollback,
            "bundle": dict(zip(("before", "now"), self.bundle, strict=True)),
            "needed": self.changes_something,
            "possible": self.is_possible,
            "digest": self.digest,
        }

    @property
    def rollback(self) -> str:
        """Say what a rollback can do afterwards."""
        if self.anew:
            by = f", which ran by {self.ran_by}" if self.ran_by else ""
            back = f"`sessionizer rollback {self.stream}` leads back to lineage {self.lineage}{by}"
            return f"{back}{self.way_back.place}"
        return f"no rollback undoes it; {self._restore} leads back to the savepoint that is made first"

    @property
    def _restore(self) -> str:
        return f"`sessionizer restore {self.stream} SAVEPOINT`"

    def lines(self) -> Iterator[str]:
        """Return the plan as lines for users."""
        if not self.changes_something:
            settled = f"stream {self.stream} already runs with its file and the installed release"
            yield f"{settled}: nothing to {self.request.verb}"
            return
        counts = count_verdicts(self.differences)
        yield f"stream {self.stream}, lineage {self.lineage}, after batch {self.batch_id} or later: {counts}"
        yield from (f"  {line}" for line in describe_differences(self.differences))
        if any(self.bundle):
            yield f"  DAG bundle: {' → '.join(dict.fromkeys(each or 'unknown' for each in self.bundle))}"
        if not self.is_possible:
            yield f"  {describe_hindrance(self.differences, self.request.accepted)}"
            return
        yield from (f"  migration {each}" for each in self.migrations)
        for number, (step, says) in enumerate(self.steps.items(), start=1):
            is_empty = self.request.stateless and step == "StartLineage"
            yield f"  {number}. {step}: {'a new lineage begins without an open session' if is_empty else says}"
        yield from self._effects()
        yield f"  {self.rollback}"

    def _effects(self) -> Iterator[str]:
        if self.request.stateless:
            yield f"  LOST: {self._left_behind}. Their events are read already, and come into no table"
            yield "  sessions that are over by the rules before are written"
            yield f"  the savepoint that is made first keeps them: {self._restore} leads back to it"
        elif not self.migrations:
            yield "  no row of a table is changed; no session is closed by it, and no event is read twice"
        else:
            yield "  no row of a table is changed, and no event is read twice"
            yield "  sessions that are over by the rules before are written"
            yield "  open events that a migration excludes leave the state"
            yield f"  to count both: `sessionizer migration check {self.stream} --deep`"

    @property
    def _left_behind(self) -> str:
        count = self.open_sessions
        if count is None:
            return "all open sessions (not counted here)"
        return "no open session" if count == 0 else f"about {count_text(count, 'open session')}"
