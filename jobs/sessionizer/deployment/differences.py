"""Differences between the two sides of an upgrade, and the facts that their verdicts follow from: pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Self

from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec, NotAccepted
from sessionizer.home.json_record import JsonRecord
from sessionizer.lineage.fingerprint import Fingerprint
from sessionizer.stream_spec.column_types import ColumnType, PartKind, changed_parts, read_recorded_type
from sessionizer.stream_spec.decisions import Change, Document
from sessionizer.stream_spec.document.rules import Mapping as SpecMapping
from sessionizer.stream_spec.effect import Verdict

ACCEPTED_BY_NAME: Final = frozenset({Verdict.PARTIAL, Verdict.UNKNOWN})
"""Verdicts that are carried out only if a user accepts the difference by its name."""
_LONGEST: Final = 80
"""Characters of a value that a plan shows."""


@dataclass(frozen=True, slots=True)
class Difference(JsonRecord):
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
        return {**asdict(self), "verdict": str(self.verdict), "must_be_accepted": self.must_be_accepted}

    @property
    def line(self) -> str:
        """Name the difference in one line."""
        return f"{self.verdict:<12} {self.name}: {_shown(self.before)} → {_shown(self.now)} ({self.kind})"


def count_verdicts(differences: Sequence[Difference]) -> str:
    """Name the number of differences of each verdict, the harmless first."""
    counts = ((verdict, sum(each.verdict is verdict for each in differences)) for verdict in Verdict)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts if count)


def describe_differences(differences: Iterable[Difference]) -> Iterator[str]:
    """Describe the differences for a reader of the plan. A sentence about several of them is said once, after them."""
    alike: dict[tuple[str, ...], list[Difference]] = {}
    for each in differences:
        said = (each.reason, each.remedy)
        alike.setdefault(said if any(said) else (each.name, ""), []).append(each)
    for found in alike.values():
        yield from (each.line for each in found)
        yield from (f"{'':<12} {sentence}" for sentence in (found[0].reason, found[0].remedy) if sentence)


def join_lines(value: object) -> str:
    """Return the text of a value in one line. An expression may have several in the file."""
    return re.sub(r"\s*\n\s*", " ", str(value).rstrip("\n"))


def _shown(value: object) -> str:
    text = "(none)" if value is None else join_lines(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def refused(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return the differences that no command can take as they are."""
    return tuple(each for each in differences if each.verdict is Verdict.INCOMPATIBLE)


def unaccepted(differences: Iterable[Difference], accepted: Collection[str]) -> tuple[Difference, ...]:
    """Return the differences that a user must accept by name and has not."""
    return tuple(each for each in differences if each.must_be_accepted and each.name not in accepted)


def refusal_of(
    stream: str, verb: str, differences: Sequence[Difference], accepted: Collection[str]
) -> InvalidSpec | NotAccepted | None:
    """Return the error of the first refused difference, else of those that lack a user's consent."""
    for each in refused(differences):
        return InvalidSpec(each.name, each.now, f"{each.before!r}, because {each.reason}. {each.remedy}")
    lacking = unaccepted(differences, accepted)
    return NotAccepted(stream, verb, tuple(each.name for each in lacking)) if lacking else None


def describe_hindrance(differences: Sequence[Difference], accepted: Collection[str]) -> str | None:
    """Say what to do before the differences can be carried out. None: nothing."""
    if refused(differences):
        return "nothing can be carried out while a difference is incompatible"
    options = " ".join(f"--accept {each.name}" for each in unaccepted(differences, accepted))
    return f"to accept what open sessions lack, add: {options}" if options else None


def decided_differences(differences: Iterable[Difference]) -> list[tuple[str, str, str]]:
    """Return what a digest covers of the differences: names and values, but no verdict and no count."""
    return sorted((each.name, str(each.before), str(each.now)) for each in differences)


@dataclass(frozen=True, slots=True)
class Division:
    """Division of the state into key groups, and of these into partitions. A partition is a task in a batch."""

    key_groups: int
    partitions: int

    @classmethod
    def read(cls, spec: Document, settings: Mapping[str, str]) -> Self:
        """Return the division of a state by its spec and the settings of its checkpoint."""
        return cls(int(spec["key_groups"]), int(settings[PARTITIONS]))

    def change(self, key_groups: int | None, partitions: int | None) -> Division:
        """Return another division. None keeps a number as it is. Raises InvalidSpec for too many partitions."""
        groups = self.key_groups if key_groups is None else key_groups
        if partitions is not None and partitions > groups:
            raise InvalidSpec("--partitions", partitions, f"at most {groups}, because a key group is in one partition")
        return Division(groups, min(self.partitions, groups) if partitions is None else partitions)

    def __str__(self) -> str:
        """Format both numbers as text."""
        return f"{count_text(self.key_groups, 'key group')} in {count_text(self.partitions, 'partition')}"

    @property
    def remark(self) -> str | None:
        """Warning for the user of this division, None if there is none."""
        if self.key_groups % self.partitions == 0:
            return None
        return f"some partitions get more key groups, because {self.partitions} does not divide {self.key_groups}"


@dataclass(frozen=True, slots=True)
class Side:
    """Side of the comparison: the ``spec`` as JSON, the fingerprint, format and revision of the state."""

    spec: Document
    fingerprint: Fingerprint
    checkpoint_format: int
    revision: str

    def divide(self, partitions: int | None) -> Side:
        """Return the side with its state in so many ``partitions``. None keeps their number. Raises InvalidSpec."""
        if partitions is None:
            return self
        divided = Division(int(self.spec["key_groups"]), 1).change(None, partitions)
        configuration = {**self.fingerprint.configuration, PARTITIONS: str(divided.partitions)}
        return replace(self, fingerprint=replace(self.fingerprint, configuration=configuration))


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


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Types of the payload's columns in the table ``sessions``, as Spark names them. Empty: nothing was seen.

    ``may_widen``: whether the table's owner turned on Delta's type widening.
    """

    types: Mapping[str, ColumnType] = field(default_factory=dict)
    may_widen: bool = False

    @classmethod
    def of(cls, schema: Mapping[str, Any], properties: Mapping[str, str]) -> Self:
        """Read the columns from a table's ``schema`` in Spark's JSON and its ``properties``."""
        events = next((each["type"] for each in schema.get("fields", ()) if each["name"] == "events"), None)
        fields = events["elementType"]["fields"] if isinstance(events, dict) else ()
        known = {each["name"]: read_recorded_type(each["type"]) for each in fields}
        types = {name: kind for name, kind in known.items() if kind is not None}
        return cls(types, properties.get("delta.enableTypeWidening") == "true")

    def refusal(self, column: str, kind: ColumnType) -> tuple[str, str] | None:
        """Return the reason and the remedy if the table cannot take ``column`` as type ``kind``, None if it can."""
        has = self.types.get(column)
        parts = [] if has is None else list(changed_parts(has, kind, column))
        settled = {PartKind.ADDED, PartKind.DROPPED, *([PartKind.WIDENED] if self.may_widen else [])}
        unfit = next((part for part in parts if part.kind not in settled), None)
        if unfit is None:
            return None
        remedy = "Give the column another name, or the tables another sink.path"
        if unfit.kind is PartKind.WIDENED:
            remedy += ", or turn on Delta's type widening"
        has_it = "it" if unfit.path == column else unfit.path
        return f"the table sessions has {has_it} as {unfit.before}", f"{remedy} (docs/applying.md)"


@dataclass(frozen=True, slots=True)
class MigrationEffects:
    """Columns and fields of an event that pending migrations set or drop.

    ``columns``: expression by column. ``ids``: the migrations, in order. ``ids_of``: those that set or drop a column of
    the payload, or a field such as ``mapping.key``.
    """

    ids: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    ids_of: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, pending: Sequence[Mapping[str, Any]]) -> Self:
        """Sum up the ``pending`` migrations, each as the spec declares it."""
        ids_of: dict[str, list[str]] = {}
        for each in pending:
            fields = (f"mapping.{name}" for name in SpecMapping.model_fields if each.get(name))
            for name in dict.fromkeys((*fields, *(each.get("columns") or ()), *(each.get("drop") or ()))):
                ids_of.setdefault(name, []).append(str(each["id"]))
        return cls(
            ids=tuple(str(each["id"]) for each in pending),
            columns={name: str(sql) for each in pending for name, sql in (each.get("columns") or {}).items()},
            dropped=frozenset(name for each in pending for name in each.get("drop") or ()),
            ids_of=ids_of,
        )

    def reason_for(self, name: str) -> str:
        """Say which migrations carry over the column or field ``name``, for a line of the plan."""
        return f"carried over by {', '.join(self.ids_of[name])}"

    def source_of(self, column: str) -> str | None:
        """Return the column that a migration renames to ``column``, None if it does not rename one."""
        expression = self.columns.get(column, "").strip().strip("`")
        return expression if expression.isidentifier() else None
