"""Effects of a changed field on a stream with open sessions: each is declared beside its field. Pure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sessionizer.stream_spec.column_types import ColumnType, PartKind, changed_parts, parse_declared_columns
from sessionizer.stream_spec.document.names import parse_duration
from sessionizer.stream_spec.document.reader_options import only_plans

if TYPE_CHECKING:
    from sessionizer.stream_spec.decisions import Change

DECIDES_NO_ROW = "it says of a change what becomes of open sessions"


class Verdict(StrEnum):
    """Need of a stream to take a difference. Ordered from harmless to refused."""

    NONE = "none"
    """No effect on the state."""
    IN_PLACE = "in place"
    """The same checkpoint continues, and open sessions lack nothing."""
    MIGRATE = "migrate"
    """A new lineage takes the open sessions over."""
    PARTIAL = "partial"
    """It continues, but open sessions lack something. A user accepts that by name."""
    UNKNOWN = "unknown"
    """Not judged. A user accepts it by name."""
    INCOMPATIBLE = "incompatible"
    """Refused. The remedy says the way out."""


@dataclass(frozen=True, slots=True)
class FieldEffect:
    """Effect of a change of a field. ``kind`` names the change, and ``reason`` says what open sessions have of it.

    In texts ``{open}`` stands for the open sessions, ``{stream}`` for the stream, and ``{before}`` for the old value.
    ``command``: the command that carries the change out, None if a start does. ``refused``: the reason why a start
    cannot, None if it asks what open sessions lack. ``plans_only``: whether the field only decides what the next batch
    takes, and not what a row of a begun batch is.
    """

    kind: str
    reason: str = ""
    verdict: Verdict = Verdict.IN_PLACE
    remedy: str = ""
    command: str | None = None
    refused: str | None = None
    plans_only: bool = False

    def describe(self, change: Change) -> tuple[str, Verdict, str]:  # noqa: ARG002  it is the same for every change
        """Return the kind, the verdict and the reason of a change."""
        return self.kind, self.verdict, self.reason

    def command_for(self, change: Change) -> str | None:  # noqa: ARG002
        """Return the command that a change needs, None if a start is enough."""
        return self.command

    def changes_begun_batch(self, change: Change) -> bool:  # noqa: ARG002
        """Whether a change would give other rows to a batch that was begun."""
        return not self.plans_only


class DurationEffect(FieldEffect):
    """Effect of a duration, whose kind ends in the direction of the change."""

    def describe(self, change: Change) -> tuple[str, Verdict, str]:
        """Compare the two durations."""
        direction = "removed" if change.now is None else "set"
        if isinstance(change.before, str) and isinstance(change.now, str):
            with suppress(ValueError):  # a text of a damaged record may be no duration
                is_longer = parse_duration(change.now) > parse_duration(change.before)
                direction = "loosened" if is_longer else "tightened"
        return f"{self.kind} {direction}", self.verdict, self.reason


class MeasureEffect(FieldEffect):
    """Effect of a measure that was added, dropped or changed."""

    def describe(self, change: Change) -> tuple[str, Verdict, str]:
        """Tell the three apart."""
        if change.before is None:
            return f"{self.kind} added", self.verdict, "it is computed over all events of a session"
        if change.now is None:
            return f"{self.kind} dropped", self.verdict, "the column stays in the table, null from now on"
        return f"{self.kind} changed", self.verdict, self.reason


class ColumnsEffect(FieldEffect):
    """Effect of declared columns of a source. An expression that reads one is judged by itself."""

    def describe(self, change: Change) -> tuple[str, Verdict, str]:
        """Name the columns that came, went, or have another type."""
        before, now = (
            ColumnType("struct", tuple((name, column.type) for name, column in parse_declared_columns(ddl).items()))
            for ddl in (change.before, change.now)
        )
        parts = list(changed_parts(before, now))
        if not parts:
            return f"{self.kind}s reordered or rewritten", Verdict.NONE, "they are known by their names"
        told = {PartKind.ADDED, PartKind.DROPPED}
        kinds = dict.fromkeys(f"{self.kind} {part.kind if part.kind in told else 'retyped'}" for part in parts)
        named = ", ".join(f"{part.path} {part.kind}" for part in parts)
        return ", ".join(kinds), self.verdict, f"{self.reason}: {named}"


class PayloadEffect(FieldEffect):
    """Effect of a column of the payload, which is judged with its expression and type."""

    def command_for(self, change: Change) -> str | None:
        """Return None for a column that was dropped."""
        return None if change.now is None else self.command


class MigrationsEffect(FieldEffect):
    """Effect of the list of migrations."""

    def command_for(self, change: Change) -> str | None:
        """Return None if only the oldest migrations were removed, because their effect is in the state."""
        before, now = change.before or [], change.now or []
        return None if now == before[len(before) - len(now) :] else self.command


class OptionsEffect(FieldEffect):
    """Effect of an option of Spark's reader."""

    def changes_begun_batch(self, change: Change) -> bool:
        """Ask the row of the option."""
        return not only_plans(change.field.removeprefix("source.options."))


@dataclass(frozen=True, slots=True)
class ChangesWithSource:
    """Mark of a field that a switch may change, because another source has other columns and another pace."""


ANOTHER_STREAM: Final = "Give the other stream a name and home of its own"
BESIDE_THE_STREAM: Final = FieldEffect("no effect", "it is shown, or configures work beside the stream", Verdict.NONE)
FOR_NEW_ROWS: Final = "it holds for rows that are read from now on"
