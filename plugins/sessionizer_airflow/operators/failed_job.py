"""The error that a batch job printed, parsed from the Spark provider's exception. Pure.

A job of ours ends with the exit code of its error, and with two lines: what happened, and what to do. The provider's
exception has both, below the command, between lines of Spark's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.errors import TerminalError
from sessionizer_airflow.errors import JobFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

_EXIT_CODE: Final = re.compile(r"\. Error code is: (\d+)\.")
_ERROR: Final = re.compile(r"^error: (.+)$", re.MULTILINE)
_REMEDY: Final = re.compile(r"^remedy: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ToldFailure:
    """Error that the job printed, and whether it rules out a retry."""

    error: JobFailed
    is_terminal: bool


def told_failure(of_provider: str) -> ToldFailure | None:
    """Parse the last error that the job printed from the provider's exception. None if it printed none."""
    code, errors = _EXIT_CODE.search(of_provider), _ERROR.findall(of_provider)
    remedies = _REMEDY.findall(of_provider)
    if code is None or not errors or not remedies:
        return None
    return ToldFailure(JobFailed(errors[-1].strip(), remedies[-1].strip()), int(code[1]) in _TERMINAL_CODES)


def _codes(kind: type[TerminalError]) -> Iterator[int]:
    yield kind.exit_code
    for narrower in kind.__subclasses__():
        yield from _codes(narrower)


_TERMINAL_CODES: Final = frozenset(_codes(TerminalError))
