"""Base of the commands that change a stream's state: their options, their canary and their plans.

An option is declared once, as a field of its command. The command line, the form in Airflow and the operation's record
are generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from sessionizer.control.execution import Decided, DigestOfDecided, Step
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.home.json_record import JsonObject, JsonRecord, typed_digest
from sessionizer.lineage.canary.judge import BATCHES, USUAL, CanaryTerms, digest_terms
from sessionizer.state.commands.steps import StartLineage
from sessionizer.stream_spec.document.stream import MOST_KEY_GROUPS

_OPTION: Final = "option"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """Declaration of an option.

    ``flag``: as typed. A word without dashes is an argument, and None stands for a field of the form alone. ``help``:
    one text for the command line and the form, which adds a capital and a full stop. ``is_moment``: the form shows a
    calendar. ``is_folder``: a path or URI, below which Spark reads tables. ``title``: in the form. Without it the form
    has no field for the option. The operation's record keeps every option, so none is a secret.
    """

    flag: str | None
    title: str | None
    help: str
    default: Any = None
    min: int | None = None
    max: int | None = None
    metavar: str | None = None
    examples: tuple[str, ...] = ()
    pattern: str | None = None
    is_moment: bool = False
    is_folder: bool = False

    @property
    def is_typed(self) -> bool:
        """Whether the option has a flag. The others are an argument or a field of the form alone."""
        return self.flag is not None and self.flag.startswith("-")

    def declare(self) -> Any:  # noqa: ANN401  a field of any type
        """Return the option as a field of its command."""
        return field(default=self.default, metadata={_OPTION: self})


def option(flag: str | None, title: str | None, help: str, *, default: Any = None, **more: Any) -> Any:  # noqa: A002, ANN401  a field of any type
    """Declare an option as a field of its command. ``more``: see ``Option``."""
    return Option(flag=flag, title=title, help=help, default=default, **more).declare()


@dataclass(frozen=True, slots=True)
class Decision(DigestOfDecided):
    """Base of a decision that is shown to a user. ``covers``: its fields in the digest."""

    covers: ClassVar[tuple[str, ...]]

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers, with the terms of the canary unless they are the usual ones."""
        return self.covered()

    def covered(self) -> dict[str, Any]:
        """Return the fields of ``covers``, and the terms of the canary."""
        values = asdict(self)
        return {**{name: values[name] for name in self.covers}, **digest_terms(getattr(self, "canary", USUAL))}

    def to_json(self) -> dict[str, Any]:
        """Return the decision for programs."""
        return {**asdict(self), "digest": self.digest}

    def lines(self) -> Iterable[str]:
        """Return the decision as lines for users."""
        raise NotImplementedError


Chosen = TypeVar("Chosen", bound=Decided)
Chosen_co = TypeVar("Chosen_co", bound=Decided, covariant=True)


@dataclass(frozen=True, slots=True)
class Plan(Generic[Chosen_co]):
    """Plan of a command: the ``decision``, and the ``steps`` in order.

    ``leaves``: the lineage that the stream is in, and its newest batch. ``refusal``: the error that makes the plan
    impossible. ``is_needed``: whether there is anything to do. ``releases``: the release that the stream runs by, and
    the one that the new lineage takes. None if they are the same, or if the command is for releases.
    """

    decision: Chosen_co
    leaves: tuple[str, int]
    steps: tuple[Step, ...]
    refusal: SessionizerError | None = None
    is_needed: bool = True
    releases: tuple[str, str] | None = None

    @property
    def digest(self) -> str:
        """Digest of the decision, and of the release that the new lineage takes."""
        return self.decision.digest if self.releases is None else typed_digest(self.decided)

    @property
    def decided(self) -> Mapping[str, Any]:
        """Fields that the digest covers."""
        release = {} if self.releases is None else {"release": self.releases[1]}
        return {**self.decision.decided, **release}

    def to_json(self) -> dict[str, Any]:
        """Return the plan for programs."""
        decision: Any = self.decision
        own = {} if self.releases is None else {"digest": self.digest, "releases": self.releases}
        return {**decision.to_json(), **own}

    def lines(self) -> Iterator[str]:
        """Yield the plan as lines for users."""
        decision: Any = self.decision
        yield from decision.lines()
        if self.releases is not None:
            said = f"the new lineage takes {self.releases[1]}, and the stream runs by {self.releases[0]}"
            yield f"  release: {said}. `upgrade --prove` compares them"

    @property
    def is_possible(self) -> bool:
        """Whether it can be carried out."""
        return self.is_needed and self.refusal is None

    def require_possible(self) -> None:
        """Raise the error that makes the plan impossible."""
        if self.refusal is not None:
            raise self.refusal


@dataclass(frozen=True, kw_only=True)
class Command(JsonRecord):
    """A command as a user gave it, and as a record keeps it.

    ``name``: the word that is typed. ``purpose``: one line for the form. ``reads_spec``: whether it reads the stream's
    file. The others go by the spec that the stream runs by. ``writes_tables``: whether it deletes or adds rows.
    ``begins_stream``: whether it is for a stream that never ran. ``sweeps``: whether its process goes on beside the
    stream when the operation is over, so that a retry must resume it. ``may_repeat``: whether two plans may have one
    digest, because it may change a lineage in place. ``brings_release``: whether a new lineage of it takes the
    installed release, though it is not for releases. ``needed``: fields that the form requires. ``when_impossible``:
    what to do if its plan is impossible. ``releases``: the release that the stream runs by and the one that is
    installed, None if they are the same or unknown.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    reads_spec: ClassVar[bool] = True
    writes_tables: ClassVar[bool] = False
    begins_stream: ClassVar[bool] = False
    sweeps: ClassVar[bool] = False
    may_repeat: ClassVar[bool] = False
    brings_release: ClassVar[bool] = True
    needed: ClassVar[tuple[str, ...]] = ()
    when_impossible: ClassVar[str] = "put back what the plan names, then {again}"

    releases: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        """Raise InvalidSpec for options that contradict each other."""
        _ = self.terms

    @property
    def prepares(self) -> bool:
        """Whether its new lineage, if any, is made before the stream is stopped."""
        return False

    @property
    def terms(self) -> CanaryTerms | None:
        """Terms of the new lineage's canary, None for no canary. Raises InvalidSpec."""
        batches, goes_back = getattr(self, "canary", 0), getattr(self, "roll_back_if_failed", False)
        if batches == 0 and goes_back:
            raise InvalidSpec(_FLAG, batches, f"at least 1, because {ROLL_BACK_IF_FAILED} is given")
        if batches == 0:
            return None
        return CanaryTerms(batches=batches, goes_back=goes_back, judges_sessions=self.like_before)

    def make_plan(
        self, decision: Chosen, leaves: tuple[str, int], steps: tuple[Step, ...], **more: Any
    ) -> Plan[Chosen]:
        """Make a plan of this command. A new lineage takes the installed release. ``more``: see ``Plan``."""
        starts = any(isinstance(step, StartLineage) for step in steps)
        return Plan(decision, leaves, steps, releases=self.releases if starts else None, **more)

    @property
    def like_before(self) -> bool:
        """Whether the new lineage should make the same sessions of its events as the one that is left."""
        return True

    @property
    def last_steps(self) -> tuple[Step, ...]:
        """Steps that follow the decisive change."""
        return ()

    @classmethod
    def options(cls) -> Mapping[str, Option]:
        """Return the declared options by the names of their fields, in order."""
        return {each.name: each.metadata[_OPTION] for each in fields(cls) if _OPTION in each.metadata}

    @classmethod
    def parse_form(cls, filled: Mapping[str, object]) -> Self:
        """Return the command of a form with these fields ``filled``. Each line of a repeated option is a value."""
        repeated = {name for name, each in cls.options().items() if each.default == ()}
        values: dict[str, Any] = {name: filled[name] for name in cls.options() if name in filled}
        for name in repeated & values.keys():
            values[name] = tuple(filter(None, map(str.strip, str(values[name]).splitlines())))
        return cls(**values)

    def to_json(self) -> JsonObject:
        """Return the options by the names of their fields."""
        every = JsonRecord.to_json(self)
        return {name: every[name] for name in self.options()}


_FLAG: Final = "--canary"
ROLL_BACK_IF_FAILED: Final = "--roll-back-if-failed"
CANARY: Final = Option(
    flag=_FLAG,
    title="Batches of the canary",
    help="number of the new lineage's first batches that are compared with the lineage before. "
    f"0: none, else {BATCHES}",
    default=BATCHES,
    min=0,
    max=1000,
)
ROLL_BACK: Final = Option(
    flag=ROLL_BACK_IF_FAILED,
    title="Roll back if failed",
    help="roll back to the lineage before, without asking, if the new one fails its canary",
    default=False,
)
KEY_GROUPS: Final = Option(
    flag="--key-groups",
    title="Key groups",
    help="number of key groups. Without it: the number in the file, or in the savepoint if the file is not read",
    min=1,
    max=MOST_KEY_GROUPS,
)
PARTITIONS: Final = Option(
    flag="--partitions",
    title="Partitions",
    help="number of partitions, each a task of a batch. Without it: the number stays as it is",
    min=1,
)
ACCEPT: Final = Option(
    flag="--accept",
    title="Accept",
    help="name of a difference that open sessions lack something by, or that is not judged",
    default=(),
)
