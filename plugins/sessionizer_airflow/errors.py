"""Errors between Airflow and a driver. The tree that they extend is in ``sessionizer.errors``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.causes.cause import name_stream
from sessionizer.errors import TerminalError, TransientError, every_problem
from sessionizer.redaction import redact
from sessionizer.state.commands.registry import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable


class BrokenSpecs(TerminalError):
    """Spec files that cannot be loaded. ``problems`` has the error of each."""

    def __init__(self, problems: Iterable[TerminalError]) -> None:
        self.problems = tuple(problems)
        every = (each for problem in self.problems for each in every_problem(problem))
        found = "\n".join(f"- {redact(str(each))}" for each in every)
        super().__init__(f"{len(self.problems)} broken in the folder of streams:\n{found}")


class HomeMissing(TerminalError):
    """``variable``, the platform's home, is not set or relative. In Airflow it has no default."""

    def __init__(self, variable: str) -> None:
        self.variable = variable
        super().__init__(
            f"{variable} is not set to an absolute path: give the same to all processes of Airflow "
            "(scheduler, workers, triggerer, DAG processor, API server)"
        )


class UnusableDatabaseConnection(TerminalError):
    """``connection`` cannot be used for a database, because of ``problem``. ``remedy`` says what to do."""

    def __init__(self, connection: str, problem: str, remedy: str) -> None:
        self.connection, self.problem, self.remedy = connection, problem, remedy
        super().__init__(f"connection {connection!r}: {problem}")


class SupervisionEnded(TerminalError):
    """The supervisor of ``stream`` gave up for ``reason``. ``remedy`` tells the user what to do."""

    def __init__(self, stream: str, reason: str, remedy: str) -> None:
        self.stream, self.reason, self.remedy = stream, reason, name_stream(remedy, stream)
        super().__init__(redact(f"gave up on {stream}: {reason}. What to do: {self.remedy}"))


class StreamFindings(TerminalError):
    """Findings about several streams. ``lines`` has one for each, ``remedy`` says what to do."""

    def __init__(self, lines: list[str], remedy: str) -> None:
        self.lines, self.remedy = tuple(lines), remedy
        super().__init__(redact("; ".join(lines)))


class PlanImpossible(TerminalError):
    """The requested ``verb`` is not possible for ``stream``. ``text`` is its plan, which says why."""

    def __init__(self, stream: str, verb: str, text: str) -> None:
        self.stream, self.verb, self.text = stream, verb, text
        again = "run this DAG again. If the plan changes nothing, you need not act"
        self.remedy = COMMANDS[verb].when_impossible.format(again=again, stream=stream)
        super().__init__(text)


class JobFailed(TerminalError):
    """A batch job ended with one of our errors: its ``message``, and the ``remedy`` that it printed."""

    def __init__(self, message: str, remedy: str) -> None:
        self.message, self.remedy = message, remedy
        super().__init__(redact(message))


class WatchCancelled(TransientError):
    """A user or Airflow ended the task that worked for ``stream``."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        super().__init__(f"the watch of {stream} was cancelled")
