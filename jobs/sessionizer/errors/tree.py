"""The roots of the tree of our errors, and the errors in a spec or an option.

The type of an error tells whether a retry can help. A spec's errors are raised before anything of a stream is touched.
"""

from __future__ import annotations

import difflib
import re
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class RetryEffect(StrEnum):
    """The effect of a retry."""

    TERMINAL = "terminal"
    """A retry ends the same way until the user has changed something, so none is made."""
    TRANSIENT = "transient"
    """The surroundings explain it. Retries continue for as long as they last, and are never given up."""
    UNCLEAR = "unclear"
    """A retry may help. If several in a row do not, the operator must look."""


class SessionizerError(Exception):
    """The root of the tree. A class without a ``title`` of its own is reported as its base class.

    ``exit_code`` is the exit code of the command line. ``title`` is the error's name in a sentence. ``remedy`` is a
    line of advice that names fields as ``{error.field}``. ``for_good``: the stream is over, and is not to be started.
    ``of_any_lineage``: no rollback helps, because the lineage before would meet it as well, or because it has a way
    back of its own.
    """

    exit_code: ClassVar[int] = 1
    title: ClassVar[str] = "the command failed"
    verdict: ClassVar[RetryEffect] = RetryEffect.UNCLEAR
    for_good: ClassVar[bool] = False
    of_any_lineage: ClassVar[bool] = False
    remedy: str = "correct what the message says, then try again"

    def advise(self) -> str | None:
        """Return a remedy for the command line that knows more than the one of the class. None if none does."""
        return None


class TerminalError(SessionizerError):
    """A retry cannot help: the user must change something first."""

    exit_code = 10
    title = "the command is refused"
    verdict = RetryEffect.TERMINAL
    remedy = "correct what the message says"


class TransientError(SessionizerError):
    """The same call may succeed later: the supervisor retries with backoff."""

    exit_code = 20
    title = "a service does not answer"
    verdict = RetryEffect.TRANSIENT
    remedy = "check the service that the message names"


_SENTENCE: Final = re.compile(r"[A-Z][a-z]+\b(?!-)")
"""Beginning of an ``allowed`` that is a sentence of its own. Any other one names the values to use."""


STREAMS_FOLDER: Final = "the folder of streams"
"""Field of an InvalidSpec about the folder itself."""


IDS: Final = {"savepoint", "lineage", "uid"}
"""Fields of an InvalidSpec that a user types. Other lower-case ones are fields of a spec."""


class InvalidSpec(TerminalError):
    """A stream spec that must not start: ``field`` (dotted path), its ``value`` and the ``allowed`` values.

    ``allowed`` completes "Use …" in the message, unless it is a sentence of its own.

    ``file`` and ``line`` (from 1) are the place, as far as it is known. ``others`` are further problems of the same
    spec.
    """

    exit_code = 11
    title = "the spec is wrong"
    remedy = "correct the spec, then run `sessionizer spec check --deep`"

    def __init__(
        self,
        field: str,
        value: object,
        allowed: str,
        *,
        file: Path | None = None,
        line: int | None = None,
        others: Iterable[InvalidSpec] = (),
    ) -> None:
        self.others = tuple(others)
        self.field, self.value, self.allowed, self.file, self.line = field, value, allowed, file, line
        place = f"{file}:{line}" if line else str(file)
        where = f"{place}: " if file else ""
        to_do = allowed if _SENTENCE.match(allowed) else f"Use {allowed}"
        shown = "missing" if value is None and (field.startswith("-") or field.isupper()) else repr(value)
        super().__init__(f"{where}{field} is {shown}. {to_do}")

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
    """A change of ``field`` to ``value`` that a begun lineage of ``stream`` takes by ``command`` only.

    ``why`` completes the sentence that names the command.
    """

    title = "the change needs another command"
    remedy = "run the command that the message names, or put the field back in the stream's spec"

    def __init__(self, stream: str, field: str, value: object, command: str, why: str) -> None:
        self.stream, self.command = stream, command
        super().__init__(field, value, f"Run `sessionizer {command}`{why}")

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
            first.others = (*first.others, *others)
            raise first


class UnknownStream(TerminalError):
    """No spec has this ``name``. ``known`` are the existing ones."""

    exit_code = 12
    title = "there is no spec"
    of_any_lineage = True
    remedy = "put the spec back into the folder of streams"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(sorted(known))
        super().__init__(f"no stream is named {name!r}. Known streams: {', '.join(self.known) or 'none'}")

    def advise(self) -> str:
        """Return the closest name that is known."""
        close = difflib.get_close_matches(self.name, self.known, n=1)
        if close:
            return f"use {close[0]}, if you meant that"
        return "write <name>.yaml into the folder of --streams or SESSIONIZER_STREAMS, or correct the folder"


class DuplicateStream(TerminalError):
    """Two spec files describe a stream of one ``name``: they would share a checkpoint."""

    exit_code = 12
    title = "two specs have one name"
    of_any_lineage = True
    remedy = "keep one of the files, or rename the other stream and its file"

    def __init__(self, name: str, files: Iterable[Path]) -> None:
        self.name, self.files = name, tuple(files)
        super().__init__(f"{len(self.files)} files describe stream {name!r}: {', '.join(map(str, self.files))}")
