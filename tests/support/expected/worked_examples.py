"""The worked examples of docs/sessions.md: what each brings, and what the page says comes of it.

An example is a block of lines fenced as ``example``. The page explains the notation; what it does not: an event in what
comes of a batch is written as it was where it came, or by its id alone where one event only has that.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from sessionizer.core.definition.event import Batch, Event
from sessionizer.core.definition.oracle import sessionize
from sessionizer.core.definition.outcome import CloseReason, Outcome, Session
from sessionizer.core.definition.rules import NEVER_MS, Caps, Clock, SessionRules

KEY: Final = "ann"
FAR_FROM_NOW_MS: Final = 10**6
"""The wall clock of the first batch, where the example does not say: ahead of all its events."""
_FENCED: Final = re.compile(r"^```example\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EVENT: Final = re.compile(r"[a-z]\d*(?:@-?\d+)?(?:\[[^]]*\])?")


@dataclass(frozen=True, slots=True)
class ToldSession:
    """A session as the page has it. ``facts``: what else it says about it."""

    events: tuple[Event, ...]
    reason: str
    facts: dict[str, str]


@dataclass(slots=True)
class Told:
    """What the page says comes of a batch; of the watermark None where it says nothing."""

    sessions: list[ToldSession] = field(default_factory=list)
    late: list[Event] = field(default_factory=list)
    repeated: list[Event] = field(default_factory=list)
    conflicting: list[Event] = field(default_factory=list)
    watermark_ms: int | None = None


@dataclass(slots=True)
class Example:
    """One block: ``told`` has an entry for each of ``batches``, ``open_events`` are those after the last."""

    line: int
    rules: SessionRules
    batches: list[Batch] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    open_events: list[Event] = field(default_factory=list)


def read_examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    return [_Reading(text[: block.start()].count("\n") + 1).read(block[1]) for block in _FENCED.finditer(text)]


class _Reading:
    def __init__(self, line: int) -> None:
        self._example = Example(line, _rules("gap_timeout 30, watermark_delay 100"))
        self._written: defaultdict[str, list[Event]] = defaultdict(list)

    def read(self, block: str) -> Example:
        for line in block.splitlines():
            if line.startswith("rules:"):
                self._example.rules = _rules(line.removeprefix("rules:"))
            elif line.startswith("open:"):
                self._example.open_events = self._named(line.removeprefix("open:"))
            elif line.startswith("  "):
                self._come_of(self._example.told[-1], line.strip())
            else:
                self._take_batch(line)
        return self._example

    def _take_batch(self, line: str) -> None:
        about, _, brings = line.partition(":")
        events = [self._event(text) for text in _EVENT.findall(brings)]
        at = re.search(r" at (\d+)", about)
        floor = re.search(r" floor (\w+)", about)
        changed = re.search(r" timeout of (\w+) (\d+)", about)
        assert re.fullmatch(r"batch( (at|with) .*)?|drain", about), about
        batch = Batch(
            tuple(events),
            arrived_at_ms=int(at[1]) if at else FAR_FROM_NOW_MS + len(self._example.batches),
            floor_ms=NEVER_MS if about == "drain" else _moment(floor[1]) if floor else None,
            timeout_changes={changed[1]: int(changed[2])} if changed else {},
        )
        self._example.batches.append(batch)
        self._example.told.append(Told())

    def _event(self, text: str) -> Event:
        head, _, rest = text.partition("[")
        event_id, _, at = head.partition("@")
        facts = dict(map(_pair, filter(None, rest.rstrip("]").split(", "))))
        payload = (facts.get("action"), int(facts["amount"]) if "amount" in facts else None)
        event = Event(
            key=facts.get("key", KEY),
            client=facts.get("client"),
            event_time_ms=int(at) if at else None,
            event_id=event_id,
            closes="closes" in facts,
            timeout_ms=int(facts["timeout"]) if "timeout" in facts else None,
            payload=payload,
        )
        for name in (text, event_id):
            if event not in self._written[name]:
                self._written[name].append(event)
        return event

    def _come_of(self, told: Told, line: str) -> None:
        what, _, rest = line.partition(" ")
        if what == "session":
            events, _, about = rest.rpartition(": ")
            reason, *facts = about.split(", ")
            told.sessions.append(ToldSession(tuple(self._named(events)), reason, dict(map(_pair, facts))))
        elif what == "watermark":
            told.watermark_ms = _moment(rest)
        else:
            getattr(told, what).extend(self._named(rest))

    def _named(self, text: str) -> list[Event]:
        found: list[Event] = []
        for name in _EVENT.findall(text):
            written = self._written[name]
            assert len(written) == 1, f"line {self._example.line}: {len(written)} events are written {name}"
            found += written
        return found


def _pair(fact: str) -> tuple[str, str]:
    name, _, value = fact.partition(" ")
    return name, value


def _moment(text: str) -> int:
    return NEVER_MS if text == "NEVER" else int(text)


def _rules(text: str) -> SessionRules:
    """``gap_timeout 30, timeout of web 10``: the rest as in a spec that caps nothing."""
    given: dict[str, Any] = {}
    clients: dict[str, int] = {}
    mode = Clock.EVENT_TIME
    for part in map(str.strip, text.split(",")):
        name, _, value = part.rpartition(" ")
        if name.startswith("timeout of "):
            clients[name.removeprefix("timeout of ")] = int(value)
        elif not name:
            mode = Clock(value)
        else:
            given[name if name in ("max_events", "max_bytes") else f"{name}_ms"] = int(value)
    caps = Caps(**{name: given.pop(name) for name in Caps._fields if name in given})
    return replace(SessionRules(mode, 100, 30, {}, caps), client_timeouts_ms=clients, **given)


def owed_by_batch(batches: Sequence[Batch], rules: SessionRules) -> list[list[Session]]:
    """For each batch of a backlog, the sessions that must be out when it is over.

    Those were due a step of ``emit_every`` before the clock of the batch before; on arrival, where nothing waits in a
    backlog, before that of the batch itself. What a cap ended is left out: it is looked for when the gap of an event of
    its key group is over, which may be any time later.
    """
    so_far = [sessionize(batches[:number], rules) for number in range(len(batches) + 1)]
    due = [(due_ms, session) for before, after in pairwise(so_far) for due_ms, session in _closed(before, after)]
    looked_for = so_far[:-1] if rules.clock is Clock.EVENT_TIME else so_far[1:]
    return [
        [session for due_ms, session in due if due_ms + rules.emit_every_ms <= outcome.watermark_ms]
        for outcome in looked_for
    ]


def _closed(before: Outcome, after: Outcome) -> Iterator[tuple[int, Session]]:
    """What a batch made final, and when each was due. What only its drain ended is due when it drains."""
    deadlines = {admitted.event: admitted.deadline_ms for admitted in before.open_events}
    for session in after.closed[len(before.closed) :]:
        if session.close_reason is CloseReason.CLOSING_EVENT:
            yield session.ended_at_ms, session
        elif session.close_reason is CloseReason.GAP:
            yield deadlines.get(session.events[-1], after.watermark_ms), session
