"""Findings on a stream, each by a declared rule, and the stream's health in one word: the worst of them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from sessionizer.control.records.supervision_records import Problem
from sessionizer.home.json_record import JsonObject


class HealthWord(StrEnum):
    """The health of a stream, from the best to the worst."""

    HEALTHY = "healthy"
    WARNING = "warning"
    """Something is not as usual, and mends itself."""
    UNKNOWN = "unknown"
    """What the stream does cannot be known from here."""
    DEGRADED = "degraded"
    """The stream works, but not as it should. A user must look."""
    DOWN = "down"
    """The stream should run and does not, and nothing is under way that starts it again."""


SEVERITY: Final = {word: number for number, word in enumerate(HealthWord)}
"""Number of each word, 0 for the best. Metrics send it."""
ALARMING: Final = frozenset({HealthWord.DEGRADED, HealthWord.DOWN})
"""Words of findings that users are alerted of."""


class Part(StrEnum):
    """The parts of a stream that are judged."""

    DRIVER = "driver"
    PROGRESS = "progress"
    WATERMARK = "watermark"
    SOURCE = "source"
    DISK = "disk"
    CANARY = "canary"
    SAVEPOINTS = "savepoints"
    SUPERVISION = "supervision"
    UPGRADE = "upgrade"


class Action(StrEnum):
    """Requests that a user may make of a stream."""

    START = "start"
    STOP = "stop"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    ROLLBACK = "rollback"
    PROMOTE = "promote"
    UPGRADE = "upgrade"


class Rule(StrEnum):
    """The rules of all findings, and of streams without one.

    ``part`` is the part of the stream that a rule judges, None for a stream without findings. ``problem``: the problem
    that the supervisor's watch alerts users of. A rule without one mends itself, or another alert tells of it.
    ``action``: the request on the page that does the same as the command of the remedy. ``is_unattended``: the stream
    has no driver, or no supervisor that would replace it. The hourly report alerts users if that lasts.
    """

    part: Part | None
    problem: Problem | None
    action: Action | None
    is_unattended: bool

    def __new__(
        cls,
        name: str,
        part: Part | None = None,
        problem: Problem | None = None,
        action: Action | None = None,
        is_unattended: bool = False,  # noqa: FBT001, FBT002  members of an enumeration are declared by position
    ) -> Self:
        """Declare a rule by its name in JSON, and its properties."""
        rule = str.__new__(cls, name)
        rule._value_ = name
        rule.part, rule.problem, rule.action, rule.is_unattended = part, problem, action, is_unattended
        return rule

    WORKING = "working"
    IDLE = "idle"
    STOPPED = "stopped"
    DRAINED = "drained"
    """The stream is over: it needs no driver and no supervisor."""

    COMMAND = "command", Part.SUPERVISION
    STUCK_COMMAND = "stuck_command", Part.SUPERVISION
    UNSWEPT = "unswept", Part.SUPERVISION, Problem.DEGRADED
    ORPHAN = "orphan", Part.SUPERVISION, None, Action.STOP
    GIVEN_UP = "given_up", Part.SUPERVISION
    PAUSED = "paused", Part.SUPERVISION, None, None, True
    UNWATCHED = "unwatched", Part.SUPERVISION, None, None, True
    INVALID_SPEC = "invalid_spec", Part.SUPERVISION, Problem.DEGRADED
    ASSET_TAKEN = "asset_taken", Part.SUPERVISION

    UNREADABLE = "unreadable", Part.DRIVER
    DAMAGED_RECORD = "damaged_record", Part.DRIVER
    STARTING = "starting", Part.DRIVER
    RESTARTING = "restarting", Part.DRIVER
    WAITING = "waiting", Part.DRIVER
    BACKING_OFF = "backing_off", Part.DRIVER
    NEVER_STARTED = "never_started", Part.DRIVER, None, Action.START
    NO_DRIVER = "no_driver", Part.DRIVER, None, None, True
    SILENT = "silent", Part.DRIVER, None, None, True
    STOPPING = "stopping", Part.DRIVER
    NOT_STOPPED = "not_stopped", Part.DRIVER, None, Action.STOP
    DRAINING = "draining", Part.DRIVER
    DRIVER_WARNS = "driver_warns", Part.DRIVER

    NO_PROGRESS = "no_progress", Part.PROGRESS
    STALE = "stale", Part.PROGRESS, Problem.STALE
    LAGGING = "lagging", Part.PROGRESS, Problem.LAGGING
    FALLING_BEHIND = "falling_behind", Part.PROGRESS, Problem.LAGGING
    CATCHING_UP = "catching_up", Part.PROGRESS
    STRAGGLER = "straggler", Part.PROGRESS, Problem.STRAGGLER

    WATERMARK_HALTED = "watermark_halted", Part.WATERMARK, Problem.DEGRADED
    OLD_EVENTS = "old_events", Part.SOURCE
    ROWS_REFUSED = "rows_refused", Part.SOURCE, Problem.DEGRADED
    ROWS_LATE = "rows_late", Part.SOURCE, Problem.DEGRADED
    LATE_BACKLOG = "late_backlog", Part.SOURCE, Problem.DEGRADED
    DISK_LOW = "disk_low", Part.DISK, Problem.DEGRADED
    DISK_FULL = "disk_full", Part.DISK, Problem.DEGRADED
    CANARY = "canary", Part.CANARY
    CANARY_FAILED = "canary_failed", Part.CANARY
    SAVEPOINT_OVERDUE = "savepoint_overdue", Part.SAVEPOINTS, Problem.DEGRADED, Action.SAVEPOINT
    UPGRADE_WAITS = "upgrade_waits", Part.UPGRADE, None, Action.UPGRADE


USUAL: Final = frozenset({Rule.WORKING, Rule.IDLE})
"""Rules of healthy streams between which a stream alternates every few seconds: no change worth telling."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding by ``rule`` on a part of a stream, ``since`` then (epoch ms, None if unknown).

    ``what`` says what is wrong, ``what_to_do`` what a user does about it, and ``command`` is what the user types
    instead or to that end. Both are empty if nothing is to be done.
    """

    rule: Rule
    word: HealthWord
    what: str
    since: int | None = None
    what_to_do: str = ""
    command: str = ""

    @property
    def remedy(self) -> str:
        """The whole remedy, for a terminal."""
        typed = f"`{self.command}`" if self.command else ""
        return f"{self.what_to_do}, or {typed}" if self.what_to_do and typed else self.what_to_do or typed

    @property
    def line(self) -> str:
        """The finding in a line. A note on a healthy stream has no word."""
        remedy = f" → {self.remedy}" if self.remedy else ""
        word = "" if self.word is HealthWord.HEALTHY else f"{self.word}: "
        return f"{word}{self.what}{remedy}"

    @property
    def problem(self) -> Problem | None:
        """The problem that the supervisor's watch alerts users of, None if it is none."""
        if self.word not in ALARMING:
            return None
        is_down = self.rule.problem is Problem.DEGRADED and self.word is HealthWord.DOWN
        return Problem.DOWN if is_down else self.rule.problem

    def to_json(self) -> JsonObject:
        """Return the fields by name, and the action on the page that does what the command does."""
        return {
            "part": self.rule.part,
            "word": self.word,
            "rule": self.rule,
            "since": self.since,
            "what": self.what,
            "what_to_do": self.what_to_do,
            "command": self.command,
            "action": self.rule.action,
        }


@dataclass(frozen=True, slots=True)
class StreamHealth:
    """The findings on a stream, the worst first. ``calm`` is the rule by which it is healthy, if there are none."""

    findings: tuple[Finding, ...] = ()
    calm: Rule = Rule.WORKING

    @property
    def word(self) -> HealthWord:
        """The worst word."""
        return self.findings[0].word if self.findings else HealthWord.HEALTHY

    @property
    def rule(self) -> Rule:
        """The rule of the worst finding."""
        return self.findings[0].rule if self.findings else self.calm

    @property
    def label(self) -> str:
        """The word and its rule, for a list of tasks. A stream that works is ``healthy``, idle or not."""
        if not self.findings and self.calm in USUAL:
            return str(self.word)
        return f"{self.word}: {self.rule.replace('_', ' ')}"

    @property
    def alarm(self) -> Finding | None:
        """The worst finding that the supervisor's watch alerts users of."""
        return next((each for each in self.findings if each.problem is not None), None)

    def to_json(self) -> JsonObject:
        """Return the word, its rule and all findings."""
        worst = Finding(self.rule, self.word, "") if not self.findings else self.findings[0]
        return {
            **worst.to_json(),
            "severity": SEVERITY[self.word],
            "findings": [finding.to_json() for finding in self.findings],
        }


def weigh(findings: Iterable[Finding | None], calm: Rule) -> StreamHealth:
    """Return the health by ``findings``. Of equal words the first one counts."""
    known = [finding for finding in findings if finding is not None]
    return StreamHealth(tuple(sorted(known, key=lambda each: -SEVERITY[each.word])), calm)
