"""Plan of a switch to another source, as data: shown first, approved by its digest, checked again then.

The digest covers the decision: the lineage that is left, the spec that the stream goes on by, and where the new source
begins as the user typed it. It does not cover how far either source has come meanwhile.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from sessionizer.control.plan_changes import DecidedFields, DigestOfDecided
from sessionizer.counts import count_is
from sessionizer.errors import InvalidSpec, SpecProblems
from sessionizer.home.clock import moment_of, moment_text
from sessionizer.lineage.canary.judge import USUAL, digest_terms
from sessionizer.stream_spec.decisions import field_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.stream_spec.decisions import Change
    from sessionizer.stream_spec.document.source import KafkaSource

_SETTLED: Final = "source.starting_offsets"
"""Setting of a stream that never ran. The plan decides where a switch begins."""


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
    """Part of the old source that the stream has not read, in ``items``.

    None means unknown, and ``why`` has the reason.
    """

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
class SwitchPlan(DigestOfDecided):
    """A decision: ``stream`` leaves ``lineage`` after ``batch_id`` or a later one, for the spec of a ``fingerprint``.

    ``changes``: of the spec, in words. ``begins``: the current position of ``start``. ``read_until`` and
    ``first_event``: event times (epoch ms) up to which the old source was read and from which the new one brings
    events, None if the command did not look. ``excluded_ranges``: those of the old source, as texts. ``kept``: topics
    that are in both sources and go on where they are.
    """

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
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers."""
        return decide_switch(self.stream, self.lineage, self.fingerprint, self.start, self.canary).decided

    @property
    def gap_ms(self) -> int | None:
        """Event time (ms) from the last event that was read to the first that comes, negative if they overlap."""
        if self.read_until is None or self.first_event is None:
            return None
        return self.first_event - self.read_until

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        return {**asdict(self), "digest": self.digest, "gap_ms": self.gap_ms}

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
            yield f"        {_gap_text(self.gap_ms, self.first_event)}"
        yield "  no table is changed, and no session is closed"


def decide_switch(
    stream: str, lineage: str, fingerprint: str, start: Start, canary: CanaryTerms | None
) -> DecidedFields:
    """Return the decision of a plan before it is made: neither source is looked at."""
    decided = {"stream": stream, "lineage": lineage, "fingerprint": fingerprint, "start": asdict(start)}
    return DecidedFields({**decided, **digest_terms(canary)})


def require_switch(changes: tuple[Change, ...]) -> None:
    """Raise InvalidSpec if the source is the same, or if fields beyond those of a source are changed."""
    named = [change for change in changes if change.field != _SETTLED]
    if not any(change.field.startswith("source.") for change in named):
        raise InvalidSpec(
            "source", "that of the running stream", "another source, and write it into the stream's file first"
        )
    problems = SpecProblems()
    for change in named:
        known = field_at(change.field)
        if known is None or not known.changes_with_source:
            with problems.noted():
                raise InvalidSpec(change.field, change.now, _put_back(change))
    problems.raise_them()


def _put_back(change: Change) -> str:
    """Say how the field is as in the running stream, to which it is new if it has no value there."""
    as_it_was = "Omit it" if change.before is None else f"Use {change.before!r}"
    return f"{as_it_was} during a switch. Apply this change before or after the switch"


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


def _gap_text(gap_ms: int, first_event: int | None) -> str:
    first = f"the new source begins with events of {moment_text(first_event or 0)}"
    seconds = f"{abs(gap_ms) / 1000:,.0f} s"
    if gap_ms > 0:
        return f"{first}: a gap of {seconds} after the last event that was read"
    known = "Events that open sessions have are dropped by their ids. Others up to the watermark are late"
    return f"{first}: {seconds} before the last event that was read. {known}"
