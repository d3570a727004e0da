"""The roots of the tree of our errors, and the errors in a spec or an option.

The type of an error tells whether a retry can help. A spec's errors are raised before anything of a stream is touched.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY
from enum import StrEnum
from inspect import get_annotations
from itertools import takewhile
from pathlib import Path
from typing import ClassVar, Final, TypedDict, Unpack, dataclass_transform


class RetryEffect(StrEnum):
    """The effect of a retry."""

    TERMINAL = "terminal"
    """A retry ends the same way until the user has changed something, so none is made."""
    TRANSIENT = "transient"
    """The surroundings explain it. Retries continue for as long as they last, and are never given up."""
    UNCLEAR = "unclear"
    """A retry may help. If several in a row do not, the operator must look."""


class Head(TypedDict, total=False):
    """Facts of a class of errors that programs read. ``for_good``: the stream is over, and is not to be started.

    ``of_any_lineage``: no rollback helps, because the lineage before would meet it as well, or because it has a way
    back of its own.
    """

    exit_code: int
    verdict: RetryEffect
    of_any_lineage: bool
    for_good: bool


@dataclass_transform(eq_default=False)
class SessionizerError(Exception):
    """The root of the tree. A class without a ``title`` of its own is reported as its base class.

    ``title`` is the error's name in a sentence, ``remedy`` a line of advice. ``message`` and ``remedy`` name fields as
    ``{0.field}``. Annotations are the fields, in the order of the arguments.
    """

    exit_code: ClassVar[int] = 1
    verdict: ClassVar[RetryEffect] = RetryEffect.UNCLEAR
    of_any_lineage: ClassVar[bool] = False
    for_good: ClassVar[bool] = False
    title: ClassVar[str] = "the command failed"
    message: ClassVar[str] = "{0.args[0]}"
    remedy: str = "correct what the message says, then try again"
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **head: Unpack[Head]) -> None:
        """Declare a class with the attributes in its ``head``."""
        super().__init_subclass__()
        inherited = (name for base in cls.__bases__[::-1] for name in getattr(base, "_fields", ()))
        cls._fields = tuple(dict.fromkeys([*inherited, *takewhile(lambda name: name != "_", get_annotations(cls))]))
        for name, value in head.items():
            setattr(cls, name, value)

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given)
        vars(self).update(zip(self._fields, given, strict=False), **named)

    def __str__(self) -> str:
        return self.message.format(self)

    def advise(self) -> str | None:
        """Return a remedy for the command line that knows more than the one of the class. None if none does."""
        return None


class TerminalError(SessionizerError, exit_code=10, verdict=RetryEffect.TERMINAL):
    """A retry cannot help: the user must change something first."""

    title = "the command is refused"
    remedy = "correct what the message says"


class TransientError(SessionizerError, exit_code=20, verdict=RetryEffect.TRANSIENT):
    """The same call may succeed later: the supervisor retries with backoff."""

    title = "a service does not answer"
    remedy = "check the service that the message names"


class OfStream(SessionizerError):
    """An error about one ``stream``, which is its first field."""

    stream: str


_SENTENCE: Final = re.compile(r"[A-Z][a-z]+\b(?!-)")
"""Beginning of an ``allowed`` that is a sentence of its own. Any other one names the values to use."""


STREAMS_FOLDER: Final = "the folder of streams"
"""Field of an InvalidSpec about the folder itself."""


IDS: Final = {"savepoint", "lineage", "uid", "operation", "lookup", "mark", "hour", "proof"}
"""Fields of an InvalidSpec that a user types. Other lower-case ones are fields of a spec."""


class InvalidSpec(TerminalError, exit_code=11):
    """A stream spec that must not start: ``field`` (dotted path), its ``value`` and the ``allowed`` values.

    ``allowed`` completes "Use …" in the message, unless it is a sentence of its own. ``file`` and ``line`` (from 1) are
    the place, as far as it is known. ``others`` are further problems of the same spec.
    """

    title = "the spec is wrong"
    remedy = "correct the spec, then run `sessionizer spec check --deep`"
    field: str
    value: object
    allowed: str
    _: KW_ONLY
    file: Path | None = None
    line: int | None = None
    others: Sequence[InvalidSpec] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        to_do = self.allowed if _SENTENCE.match(self.allowed) else f"Use {self.allowed}"
        is_missing = self.value is None and (self.field.startswith("-") or self.field.isupper())
        shown = "missing" if is_missing else repr(self.value)
        return f"{f'{place}: ' if self.file else ''}{self.field} is {shown}. {to_do}"

    def advise(self) -> str:
        """Return the command or the file that mends the field."""
        if self.field.startswith("-") or self.field.isupper() or (self.field in IDS and self.file is None):
            if self.value is None:
                return f"add {self.field}"
            return f"{'correct' if _SENTENCE.match(self.allowed) else 'give another'} {self.field}"
        if self.field == STREAMS_FOLDER:
            return "give an existing folder by --streams, SESSIONIZER_STREAMS, or stream_dags() in the DAG file"
        if self.file is not None and self.file.name == "spec.json":
            recorded = "this release refuses the recorded spec"
            return f"correct the stream's file, then run `sessionizer run … --apply`: {recorded}"
        where = self.file or "the stream's spec"
        return f"correct {self.field} in {where}, then run `sessionizer spec check --deep`"


class ChangeRefused(InvalidSpec):
    """A change of ``field`` to ``value`` that a begun lineage takes by ``command`` only."""

    title = "the change needs another command"
    remedy = "run the command that the message names, or put the field back in the stream's spec"
    command: str

    def advise(self) -> str:
        """Return the command, and the other way out."""
        return f"run `sessionizer {self.command}`, or put {self.field} back in the stream's spec"


def every_problem(error: SessionizerError) -> tuple[SessionizerError, ...]:
    """Return ``error`` and the other problems of the same spec."""
    return (error, *error.others) if isinstance(error, InvalidSpec) else (error,)


class SpecProblems:
    """Problems of a spec, collected so that all of them are reported at once."""

    def __init__(self) -> None:
        self._found: list[InvalidSpec] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note an InvalidSpec of the block instead of raising it."""
        try:
            yield
        except InvalidSpec as error:
            self._found.append(error)

    def raise_them(self) -> None:
        """Raise InvalidSpec for the first problem, if there is one, with the others beside it."""
        if self._found:
            first, *others = self._found
            first.others = [*first.others, *others]
            raise first


class UnknownStream(TerminalError, exit_code=12, of_any_lineage=True):
    title = "there is no spec"
    remedy = "put the spec back into the folder of streams"
    name: str
    known: Collection[str]

    def __str__(self) -> str:
        return f"no stream is named {self.name!r}. Known streams: {', '.join(sorted(self.known)) or 'none'}"

    def advise(self) -> str:
        """Return the closest name that is known."""
        close = difflib.get_close_matches(self.name, sorted(self.known), n=1)
        if close:
            return f"use {close[0]}, if you meant that"
        return "write <name>.yaml into the folder of --streams or SESSIONIZER_STREAMS, or correct the folder"


class DuplicateStream(TerminalError, exit_code=12, of_any_lineage=True):
    title = "two specs have one name"
    remedy = "keep one of the files, or rename the other stream and its file"
    name: str
    files: Collection[Path]

    def __str__(self) -> str:
        return f"{len(self.files)} files describe stream {self.name!r}: {', '.join(map(str, self.files))}"
