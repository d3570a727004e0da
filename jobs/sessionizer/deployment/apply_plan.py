"""Plan of applying a changed spec, as data: how the stream can take each field, and the result."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from sessionizer.deployment.refusals import KEY_GROUPS, MIGRATIONS, WHICH_SOURCE, only_forgets
from sessionizer.errors import InvalidSpec
from sessionizer.home.stamp import typed_digest
from sessionizer.lineage.trial.judging import USUAL, approved_terms
from sessionizer.migrations.compiled import describe_migration
from sessionizer.migrations.pending import migration_digest
from sessionizer.stream_spec.decisions import changes_between, decided_by, decisions_of, spec_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessionizer.lineage.trial.judging import Terms
    from sessionizer.stream_spec.decisions import Change, Document
    from sessionizer.stream_spec.document.migration import Migration
    from sessionizer.stream_spec.document.stream import StreamSpec

VERB: Final = "apply"
TIME_MODE: Final = "rules.time_mode"


class Way(StrEnum):
    """Way in which a stream can take a change."""

    IN_PLACE = "in place"
    """The lineage continues, because open events are read by the names of the columns that they came with."""
    NEW_LINEAGE = "in a new lineage"
    MIGRATION = "by migrating the open events into a new lineage"
    OTHER_VERB = "not by this command"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Taken:
    """Changed ``field`` (values in words), and the ``way`` that the stream takes it.

    ``note``: the reason, or the remedy.
    """

    field: str
    change: str
    way: Way
    note: str = ""

    def line(self, *, anew: bool) -> str:
        """Describe the change in a line. ``anew``: every possible change is taken in a new lineage."""
        way = Way.NEW_LINEAGE if anew and self.way is Way.IN_PLACE else self.way
        return f"{self.change} ({way}{f': {self.note}' if self.note else ''})"


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """Plan that ``stream`` continues by the spec of a ``fingerprint``.

    It continues after ``batch_id`` of ``lineage`` or a later batch. ``anew``: in a new lineage, because a field needs
    that or the user wants it. Such a lineage is on ``trial``. ``migrations``: those that the open events get, in words.
    """

    stream: str
    lineage: str
    batch_id: int
    fingerprint: str
    fields: tuple[Taken, ...]
    anew: bool
    trial: Terms | None = USUAL
    migrations: tuple[str, ...] = ()

    @property
    def changes_something(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.fields or self.migrations)

    @property
    def refused(self) -> tuple[Taken, ...]:
        """The changes that this command cannot make."""
        return tuple(taken for taken in self.fields if taken.way in {Way.OTHER_VERB, Way.NEVER})

    @property
    def is_possible(self) -> bool:
        """Whether it can be carried out."""
        return self.changes_something and not self.refused

    @property
    def digest(self) -> str:
        """Digest of 16 hex digits, the same for the same decision on any machine."""
        decided = ("stream", "lineage", "fingerprint", "anew")
        on_trial = approved_terms(self.trial) if self.anew else {}
        migrated = {"migrations": self.migrations} if self.migrations else {}
        chosen = {name: value for name, value in asdict(self).items() if name in decided}
        return typed_digest({**chosen, **on_trial, **migrated})

    def require_possible(self) -> None:
        """Raise InvalidSpec for the first field that this command cannot change."""
        for taken in self.refused:
            raise InvalidSpec(
                taken.field,
                taken.change.rpartition(" → ")[2],
                f"the earlier value. {taken.note[:1].upper()}{taken.note[1:]}",
            )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {**asdict(self), "possible": self.is_possible, "digest": self.digest}

    def lines(self) -> Iterator[str]:
        """Return the plan as lines for users."""
        if not self.changes_something:
            yield f"stream {self.stream} runs by what its file says: there is nothing to apply"
            return
        count = len(self.fields)
        yield f"stream {self.stream} goes on by its file, which differs in {count} field{'' if count == 1 else 's'}"
        for taken in self.fields:
            yield f"  {taken.line(anew=self.anew)}"
        if self.refused:
            yield "  nothing of it can be applied before that is settled"
            return
        yield "  a canonical savepoint of what is open is made first"
        for migration in self.migrations:
            yield f"  migrates open events by {migration}"
        if self.migrations:
            yield f"  see what it does to them: `sessionizer migration check {self.stream} --deep`"
        if self.anew:
            yield f"  from  lineage {self.lineage}, after batch {self.batch_id}; it is left, and kept"
            yield "  to    a new lineage with every open session"
        else:
            yield f"  it stays in lineage {self.lineage}, after batch {self.batch_id} or later: no rollback undoes it"
        yield "  no row of a table is changed; no session is closed by it, and no event is read twice"


def plan_apply(
    stream: str,
    at: tuple[str, int],
    before: Document,
    spec: StreamSpec,
    *,
    anew: bool,
    trial: Terms | None = USUAL,
) -> ApplyPlan:
    """Make the plan. ``at``: the lineage and its newest committed batch. ``before``: the spec that the lineage runs by.

    ``anew``: a new lineage is wanted, whatever changes. ``trial``: the trial of a new lineage.
    """
    lineage, batch_id = at
    fields = tuple(_taken(stream, change) for change in changes_between(decided_by(before), decisions_of(spec)))
    needed = any(taken.way is Way.NEW_LINEAGE for taken in fields)
    return ApplyPlan(stream, lineage, batch_id, spec_fingerprint(spec), fields, anew or needed, trial)


def add_migrations(plan: ApplyPlan, pending: Sequence[Migration]) -> ApplyPlan:
    """Add the ``pending`` migrations, which need a new lineage, to a plan."""
    migrations = tuple(f"{each.id} ({migration_digest(each)}): {describe_migration(each)}" for each in pending)
    return replace(plan, anew=plan.anew or bool(pending), migrations=migrations)


def _taken(stream: str, change: Change) -> Taken:
    if change.field == KEY_GROUPS:
        return Taken(change.field, str(change), Way.NEW_LINEAGE, "the state is divided anew")
    if change.field == MIGRATIONS:
        now = [each["id"] for each in change.now or []]
        before = [each["id"] for each in change.before or []]
        way = Way.IN_PLACE if only_forgets(change) else Way.MIGRATION
        return Taken(change.field, f"{change.field}: {before} → {now}", way)
    if change.field in WHICH_SOURCE:
        other = f"`sessionizer switch {stream} --start-at …`, which says where the other source begins"
        return Taken(change.field, str(change), Way.OTHER_VERB, other)
    if change.field == TIME_MODE:
        other = "open events are on the clock of before; a stream on another clock is another stream"
        return Taken(change.field, str(change), Way.NEVER, other)
    return Taken(change.field, str(change), Way.IN_PLACE)
