"""Progress lines and error messages of the commands."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

import typer

from sessionizer.causes.table import remedy_for
from sessionizer.cli.pasted import CommandLine
from sessionizer.cli.silence import SilenceTeller
from sessionizer.errors import QueryFailed, SessionizerError, every_problem
from sessionizer.launch.driver_environment import hide_airflows
from sessionizer.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

INTERRUPTED: Final = 130
"""Exit code of a command that Ctrl-C ended."""
_STDOUT: Final = 1
_STDERR: Final = 2


def say(line: str) -> None:
    """Print a line of progress on stderr. A reader that went away must not end the work."""
    SILENCE.end_silence()
    _write(line)


def _write(line: str) -> None:
    with suppress(BrokenPipeError):
        typer.echo(line, err=True)


SILENCE: Final = SilenceTeller(_write)
"""Teller of long silences, from the start of Spark to the end of the command."""


def confirm(question: str) -> None:
    """Ask the user a question on stderr, and end the command unless the answer is yes."""
    SILENCE.stop()
    typer.confirm(question, abort=True, err=True)
    SILENCE.start()


def tell(error: SessionizerError) -> None:
    """Print the error and its remedy on stderr, and the other problems of the same spec."""
    typed = this_command_line()
    for each in every_problem(error):
        say(f"error: {typed.complete(redact(str(each)))}")
        say(f"remedy: {typed.complete(remedy_for(each, typed.stream))}")
        for note in getattr(each, "__notes__", ()):
            say(f"note: {typed.complete(redact(note))}")


def this_command_line() -> CommandLine:
    """Return the command line of this process."""
    from sessionizer.cli.app import app  # noqa: PLC0415  it imports this module

    return CommandLine.parse(typer.main.get_command(app), sys.argv[1:])


def start_spark(application: str, master: str | None, *, local_data: bool = True) -> SparkSession:
    """Start a session for a command whose work may be cut off anywhere: Ctrl-C then ends it at once and in silence.

    ``local_data``: as for ``spark_session``. Raises JvmNotStarted, and the error that Spark's own amounts to.
    """
    from sessionizer.spark.session import spark_session  # noqa: PLC0415  fast --help

    SILENCE.start()
    with hide_airflows(os.environ), _children_print_on_stderr(), translate_failures(application):
        spark = spark_session(application, master, local_data=local_data)
    signal.signal(signal.SIGINT, _end_at_once)  # Spark's own handler talks to a JVM that is in the middle of a call
    return spark


@contextmanager
def _children_print_on_stderr() -> Iterator[None]:
    """Give the JVM our stderr as its stdout, because Delta prints there, and a program may read JSON from ours."""
    ours = os.dup(_STDOUT)
    try:
        os.dup2(_STDERR, _STDOUT)
        yield
    finally:
        os.dup2(ours, _STDOUT)
        os.close(ours)


def _end_at_once(_number: int, _frame: object) -> NoReturn:
    shown = "an operation that was begun and how to resume it"
    say(f"interrupted: run {this_command_line().complete('`sessionizer status`')}, which shows {shown}")
    os._exit(INTERRUPTED)  # the JVM ends when our end of its pipe closes; uncommitted Delta files are invisible


@contextmanager
def translate_failures(stream: str) -> Iterator[None]:
    """Turn every error of Spark in the block into one of ours."""
    try:
        yield
    except SessionizerError:
        raise
    except Exception as error:
        raise translate_failure(stream, error) from error


def translate_failure(stream: str, error: Exception) -> SessionizerError:
    """Return the error of ours that fits ``error``."""
    if isinstance(error, SessionizerError):
        return error
    from pyspark.errors import AnalysisException  # noqa: PLC0415  fast --help

    from sessionizer.spark.driver.out_of_memory import words_of_this_jvm  # noqa: PLC0415
    from sessionizer.spark.failures.query_failure import classify_failure  # noqa: PLC0415
    from sessionizer.spark.internals.java_errors import java_message  # noqa: PLC0415

    if isinstance(error, AnalysisException):
        return QueryFailed(stream, "analysis", java_message(error))
    return classify_failure(stream, error, words_of_this_jvm)
