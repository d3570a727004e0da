"""Commands whose new lineage goes on after the newest batch: ``rescale`` and ``switch``, with their plans.

A digest covers the decision as the user typed it, not how far the stream or a source has come. A stream that runs on
meanwhile moves its state all the same, after its last batch. The digest of a switch without lost events covers each
loss by name (docs/adr/0128).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeVar

from sessionizer.control.execution import DecidedFields
from sessionizer.counts import count_is
from sessionizer.deployment.differences import Division
from sessionizer.errors import EventsUnread, InvalidSpec, SpecProblems
from sessionizer.home.clock import moment_of, moment_text
from sessionizer.lineage.canary.judge import USUAL, CanaryTerms, digest_terms
from sessionizer.state.commands.command import (
    CANARY,
    KEY_GROUPS,
    PARTITIONS,
    ROLL_BACK,
    Command,
    Decision,
    Plan,
    option,
)
from sessionizer.state.commands.steps import Activate, Stop, new_lineage
from sessionizer.state.lineages.committed_batch import CommittedBatch
from sessionizer.stream_spec.decisions import Change, field_at
from sessionizer.stream_spec.document.source import KafkaSource


@dataclass(frozen=True, slots=True)
class RescalePlan(Decision):
    """A decision: ``stream`` leaves ``lineage`` after ``batch_id`` or a later one. ``canary``: of the new lineage."""

    covers: ClassVar = ("stream", "lineage", "before", "now")
    stream: str
    lineage: str
    batch_id: int
    before: Division
    now: Division
    canary: CanaryTerms | None = USUAL

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        if self.before == self.now:
            yield f"stream {self.stream} has {self.now} already, so there is nothing to change"
            return
        yield f"stream {self.stream} continues with its state divided anew"
        yield f"  from  lineage {self.lineage}, after batch {self.batch_id}: {self.before}. It is kept"
        yield f"  to    a new lineage: {self.now}"
        if self.now.remark is not None:
            yield f"        {self.now.remark}"
        yield "  no table is changed, no session is closed, and no event is read twice"


def plan_rescale(
    stream: str,
    committed: CommittedBatch,
    key_groups: int | None,
    partitions: int | None,
    canary: CanaryTerms | None = USUAL,
) -> RescalePlan:
    """Make the plan of a rescale. None keeps a number as it is. Raises InvalidSpec for more partitions than groups."""
    before = Division.read(committed.spec, committed.settings)
    now = before.change(key_groups, partitions)
    return RescalePlan(stream, committed.lineage, committed.batch_id, before, now, canary)


@dataclass(frozen=True, kw_only=True)
class Rescale(Command):
    """Show how a stream's state would be divided anew. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "rescale"
    purpose: ClassVar = "divide the state anew"

    key_groups: int | None = KEY_GROUPS.declare()
    partitions: int | None = PARTITIONS.declare()
    canary: int = CANARY.declare()
    roll_back_if_failed: bool = ROLL_BACK.declare()

    def plan(self, stream: str, committed: CommittedBatch, key_groups_of_file: int) -> Plan[RescalePlan]:
        """Decide the division. Raises InvalidSpec."""
        groups = key_groups_of_file if self.key_groups is None else self.key_groups
        division = plan_rescale(stream, committed, groups, self.partitions, self.terms)
        return self.make_plan(
            division,
            leaves=(division.lineage, division.batch_id),
            steps=(Stop(), *new_lineage(self.terms), Activate()),
            is_needed=division.before != division.now,
        )


class Edge(StrEnum):
    """The ends of a source."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Start:
    """Start of the new source: an ``edge``, else the events that came into it at ``at`` (epoch ms) or later."""

    edge: Edge | None = None
    at: int | None = None

    @classmethod
    def of(cls, text: str) -> Start:
        """Parse the text that a user typed. Raises InvalidSpec."""
        if text in tuple(Edge):
            return cls(edge=Edge(text))
        return cls(at=moment_of(text, "--start-at", "earliest, latest, or "))

    def __str__(self) -> str:
        """Format the start as text."""
        return moment_text(self.at) if self.at is not None else f"its {self.edge} end"


@dataclass(frozen=True, slots=True)
class UnreadPart:
    """Part of the old source that the stream has not read, in ``items``. None: unknown, and ``why`` has the reason."""

    unit: str
    items: int | None
    why: str = ""

    def __str__(self) -> str:
        """Format the number as text."""
        if self.items is None:
            return f"the number of unread {self.unit} in the old source is unknown: {self.why}"
        if self.items:
            return f"of the old source {count_is(self.items, self.unit.removesuffix('s'))} unread"
        return f"all {self.unit} of the old source were read"


@dataclass(frozen=True, slots=True)
class SwitchPlan(Decision):
    """A decision: ``stream`` leaves ``lineage`` after ``batch_id`` or a later one, for the spec of a ``fingerprint``.

    ``changes``: of the spec, in words. ``begins``: the current position of ``start``. ``read_until`` and
    ``first_event``: event times (epoch ms) up to which the old source was read and from which the new one brings
    events, None if the command did not look. ``excluded_ranges``: those of the old source, as texts. ``kept``: topics
    that are in both sources and go on where they are.
    """

    covers: ClassVar = ("stream", "lineage", "fingerprint", "start")
    stream: str
    lineage: str
    batch_id: int
    fingerprint: str
    start: Start
    changes: tuple[str, ...]
    begins: str
    unread: UnreadPart
    read_until: int | None = None
    first_event: int | None = None
    excluded_ranges: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    canary: CanaryTerms | None = USUAL

    @property
    def gap_ms(self) -> int | None:
        """Event time (ms) from the last event that was read to the first that comes, negative if they overlap."""
        if self.read_until is None or self.first_event is None:
            return None
        return self.first_event - self.read_until

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {**Decision.to_json(self), "gap_ms": self.gap_ms}

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        yield f"stream {self.stream} continues with another source"
        for change in self.changes:
            yield f"  {change}"
        yield f"  from  lineage {self.lineage}, after batch {self.batch_id}. It is kept"
        yield f"        {self.unread}"
        if self.unread.items:
            yield "        if only the old source has them, they are lost. Let the stream read them first"
        if self.kept:
            yield f"        {', '.join(self.kept)}: in both sources, so they keep their positions"
        for each in self.excluded_ranges:
            yield f"        {each} is excluded in the old source only, because positions in the new one differ"
        yield "  to    a new lineage with every open session"
        yield f"        it reads the new source from {self.start}: {self.begins}"
        if self.gap_ms is not None:
            first = f"the new source begins with events of {moment_text(self.first_event or 0)}"
            seconds = f"{abs(self.gap_ms) / 1000:,.0f} s"
            if self.gap_ms > 0:
                yield f"        {first}: a gap of {seconds} after the last event that was read"
            else:
                known = "Events that open sessions have are dropped by their ids. Others up to the watermark are late"
                yield f"        {first}: {seconds} before the last event that was read. {known}"
        yield "  no table is changed, and no session is closed"


def decide_switch(
    stream: str, lineage: str, fingerprint: str, start: Start, canary: CanaryTerms | None
) -> DecidedFields:
    """Return the decision of a plan before it is made: neither source is looked at."""
    decided = {"stream": stream, "lineage": lineage, "fingerprint": fingerprint, "start": asdict(start)}
    return DecidedFields({**decided, **digest_terms(canary)})


def require_switch(changes: tuple[Change, ...]) -> None:
    """Raise InvalidSpec if the source is the same, or if fields beyond those of a source are changed."""
    # that one is for a stream that never ran: the plan decides where a switch begins
    named = [change for change in changes if change.field != "source.starting_offsets"]
    if not any(change.field.startswith("source.") for change in named):
        raise InvalidSpec(
            "source", "that of the running stream", "another source, and write it into the stream's file first"
        )
    problems = SpecProblems()
    for change in named:
        known = field_at(change.field)
        if known is None or not known.changes_with_source:
            as_it_was = "Omit it" if change.before is None else f"Use {change.before!r}"
            allowed = f"{as_it_was} during a switch. Apply this change before or after the switch"
            with problems.noted():
                raise InvalidSpec(change.field, change.now, allowed)
    problems.raise_them()


def topics_that_stay(
    before: Mapping[str, Any],
    now: KafkaSource,
    offset: Mapping[str, Any] | None,
    noted: Mapping[str, str],
    ids: Mapping[str, str],
) -> tuple[str, ...]:
    """Return the topics of the source ``now`` that the stream has a position in, in the order of their names.

    ``before``: the source of the spec that is left, ``offset``: its position. ``noted`` and ``ids``: of the topics then
    and now. If an id is not known, a topic of the same brokers is the same one.
    """
    if before["format"] != "kafka" or not offset:
        return ()
    same_brokers = before["bootstrap_servers"] == now.bootstrap_servers
    both = sorted({*now.topic.split(",")} & {*offset})
    return tuple(
        topic for topic in both if (noted[topic] == ids[topic] if topic in noted and topic in ids else same_brokers)
    )


_LISTED: Final = 20
"""Number of losses that are named one by one in the plan's text."""


@dataclass(frozen=True, slots=True)
class LossPlan(Decision):
    """A decision: ``stream`` leaves ``lineage`` and resumes without the ``lost`` events, by the same spec."""

    covers: ClassVar = ("stream", "lineage", "fingerprint", "lost")
    stream: str
    lineage: str
    batch_id: int
    fingerprint: str
    lost: tuple[str, ...]
    begins: str
    canary: CanaryTerms | None = USUAL

    def lines(self) -> Iterator[str]:
        """Yield the plan as text, line by line."""
        yield f"stream {self.stream} continues with its source, without the events that are gone"
        for each in self.lost[:_LISTED]:
            yield f"  lost  {each}"
        if len(self.lost) > _LISTED:
            yield f"  lost  {len(self.lost) - _LISTED:,} more (--json has them all)"
        yield f"  from  lineage {self.lineage}, after batch {self.batch_id}. It is kept"
        yield "  to    a new lineage with every open session"
        yield f"        it reads its source from {self.begins}"
        yield "  no table is changed, and no session is closed"


Moved = TypeVar("Moved", bound=SwitchPlan | LossPlan)


@dataclass(frozen=True, kw_only=True)
class Switch(Command):
    """Show what a switch to the source in the file would do. With --approve DIGEST, do it."""

    name: ClassVar = "switch"
    purpose: ClassVar = "continue with the source that the file names now"
    needed: ClassVar = ("start_at",)

    start_at: str | None = option(
        "--start-at",
        "Where the new source begins",
        "position at which the new source begins: earliest, latest, or a moment such as 2026-11-23T10:00 (UTC)",
        examples=("earliest", "latest"),
    )
    accept_loss: bool = option(
        "--accept-loss",
        "Or accept the loss",
        "continue with the same source, without the events that are gone",
        default=False,
    )
    leave_unread: bool = option(
        "--leave-unread", "Leave unread", "switch although the old source has unread events", default=False
    )
    canary: int = CANARY.declare()
    roll_back_if_failed: bool = ROLL_BACK.declare()

    def plan(self, decision: Moved, *, is_stopped: bool = False) -> Plan[Moved]:
        """Decide what the stream leaves. Events of the old source that a stopped stream did not read forbid it."""
        terms, refusal = self.terms, None
        if isinstance(decision, SwitchPlan):
            # events that a new source brings once more are late on purpose
            terms = terms and replace(terms, judges_late=False)
            if is_stopped and decision.unread.items and not self.leave_unread:
                refusal = EventsUnread(decision.stream, decision.unread.items, decision.unread.unit)
        return self.make_plan(
            decision,
            leaves=(decision.lineage, decision.batch_id),
            steps=(Stop(), *new_lineage(terms), Activate()),
            refusal=refusal,
        )

    def start(self) -> Start | None:
        """Return the position at which another source begins, None to keep the source. Raises InvalidSpec."""
        if not self.accept_loss:
            if self.start_at is None:
                allowed = "earliest, latest or a moment. Or add --accept-loss for the same source"
                raise InvalidSpec("--start-at", None, allowed)
            return Start.of(self.start_at)
        if self.start_at is not None:
            allowed = "Omit it, because --accept-loss continues with the same source"
            raise InvalidSpec("--start-at", self.start_at, allowed)
        if self.leave_unread:
            allowed = "Omit it, because --accept-loss reads all events that are left"
            raise InvalidSpec("--leave-unread", "given", allowed)
        return None
