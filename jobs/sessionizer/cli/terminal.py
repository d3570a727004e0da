"""Progress lines and error messages of the commands."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import typer

from sessionizer.causes.table import remedy_for
from sessionizer.cli.places import CommandLine, spark_master
from sessionizer.counts import count_text
from sessionizer.errors import (
    DamagedFile,
    DiskFull,
    NoWorkingFolder,
    QueryFailed,
    SessionizerError,
    UnwritablePath,
    every_problem,
)
from sessionizer.home.clock import describe_duration
from sessionizer.home.local_files import unreadable
from sessionizer.home.roots import DataPath, is_local
from sessionizer.launch.driver_environment import hide_airflows
from sessionizer.redaction import redact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FIRST_S: Final = 15
"""Seconds without a line after which the first one is due."""
LONGEST_S: Final = 60
"""Longest time between two of these lines, in seconds."""
LOG_LEVEL: Final = "SESSIONIZER_LOG_LEVEL"
_CLEAR: Final = "\r\x1b[K"


class Work(NamedTuple):
    """The part of Spark's present work that is done: ``done`` of ``total`` tasks of ``stage``."""

    stage: int
    done: int
    total: int


@dataclass(slots=True)
class WorkPace:
    """The pace of a stage of work, from the first look at it. Seconds."""

    _first: Work | None = None
    _since: float = 0

    def line(self, work: Work | None, now: float) -> str | None:
        """Say how far the work is, at what rate, and how long it will take. None without work."""
        if work is None or not work.total:
            return None
        if self._first is None or work.stage != self._first.stage:
            self._first, self._since = work, now
        said = f"{work.done:,} of {count_text(work.total, 'task')}"
        done, seconds = work.done - self._first.done, now - self._since
        if done <= 0 or seconds <= 0:
            return said
        left = describe_duration(round((work.total - work.done) * seconds / done * 1000))
        return f"{said}, {done / seconds:,.1f}/s, {left} left"


@dataclass(slots=True)
class Silence:
    """Time since the last line of a command, which is told ever more seldom. Seconds."""

    since: float
    due_s: float = FIRST_S

    def end(self, now: float) -> None:
        """Note that a line was printed."""
        self.since, self.due_s = now, FIRST_S

    def line(self, now: float, work: str | None = None) -> str | None:
        """Return the line that is due at ``now``, or None."""
        silent = now - self.since
        if silent < self.due_s:
            return None
        self.due_s = silent + min(silent, LONGEST_S)
        told = describe_duration(round(silent * 1000))
        return f"still working: {f'{work}, ' if work else ''}{told} since the last line of progress"


@dataclass(slots=True)
class SilenceTeller:
    """A thread that tells by ``write`` how far a silent command is, and looks so often.

    ``work`` asks for the work. ``show`` shows its line on a terminal, where the next line replaces it.
    """

    write: Callable[[str], None]
    look_every_s: float = 1.0
    show: Callable[[str], None] | None = None
    work: Callable[[], Work | None] = lambda: None
    _silence: Silence = field(default_factory=lambda: Silence(time.monotonic()))
    _stopped: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to tell. The thread does not keep the process alive."""
        self.stop()
        self.end_silence()
        self._stopped = threading.Event()
        threading.Thread(target=self._tell, args=(self._stopped,), name="silence", daemon=True).start()

    def stop(self) -> None:
        """End the thread, if there is one, and remove its line from the terminal."""
        self._stopped.set()
        LIVE.clear()

    def end_silence(self) -> None:
        """Note that the command has printed a line."""
        self._silence.end(time.monotonic())

    def _tell(self, stopped: threading.Event) -> None:
        pace = WorkPace()
        while not stopped.wait(self.look_every_s):
            now = time.monotonic()
            with suppress(Exception):  # Spark may be ending
                work = pace.line(self.work(), now)
                if self.show is not None and work is not None and not stopped.is_set():
                    self.show(work)
                elif (line := self._silence.line(now, work)) is not None:
                    self.write(line)


INTERRUPTED: Final = 130
"""Exit code of a command that Ctrl-C ended."""
_NO_FILE: Final = {errno.EISDIR, errno.EINVAL, errno.ENOTDIR, errno.ELOOP}
"""Numbers of errors about something else in the place of a file."""
_STDOUT: Final = 1
_STDERR: Final = 2


class _Output(io.TextIOWrapper):
    """The standard output. It raises an error of ours if it takes nothing more, unless its reader has gone away."""

    def write(self, text: str) -> int:
        with self._named_failure():
            LIVE.clear()
            return super().write(text)

    def flush(self) -> None:
        with self._named_failure():
            super().flush()

    @contextmanager
    def _named_failure(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())  # Python flushes once more at its end
            kind = DiskFull if error.errno == errno.ENOSPC else UnwritablePath
            raise kind("the standard output", "the result", error.strerror or str(error)) from error


def open_outputs() -> None:
    """Make input and outputs usable: a closed one loses all, and one of few characters shows others as escapes."""
    for number in (0, _STDOUT, _STDERR):
        try:
            os.fstat(number)
        except OSError:  # else the next file that is opened would be taken for it
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(_STDOUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(_STDERR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if type(sys.stdout) is io.TextIOWrapper:
        encoding, errors, line_buffering = sys.stdout.encoding, sys.stdout.errors, sys.stdout.line_buffering
        buffer: Any = sys.stdout.detach()
        if isinstance(buffer, io.RawIOBase):  # PYTHONUNBUFFERED: typer would lose what such an output refuses
            buffer, line_buffering = io.BufferedWriter(buffer), True
        errors = "backslashreplace" if errors == "strict" else errors
        sys.stdout = _Output(buffer, encoding=encoding, errors=errors, line_buffering=line_buffering)


def translate_refusal(error: OSError) -> SessionizerError:
    """Return the error of ours for a refusal by the operating system that no code has foreseen."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return NoWorkingFolder()
    if isinstance(error, PermissionError) and isinstance(error.filename, str):
        return unreadable(Path(error.filename), error)
    if error.filename is None and error.errno == errno.ENOSPC:  # an output that typer has wrapped in its own way
        return DiskFull("the standard output", "the result", error.strerror or "")
    if isinstance(error.filename, str) and error.errno in _NO_FILE:
        return DamagedFile(error.filename, error.strerror or str(error))
    return SessionizerError(str(error))


def say(line: str) -> None:
    """Print a line of progress on stderr. A reader that went away must not end the work."""
    SILENCE.end_silence()
    _write(line)


def _write(line: str) -> None:
    LIVE.clear()
    with suppress(BrokenPipeError):
        typer.echo(line, err=True)


@dataclass(slots=True)
class LiveLine:
    """The last line of a terminal, which the next line replaces."""

    _is_shown: bool = False

    def show(self, line: str) -> None:
        """Show ``line`` in place of the one before, cut to the width of the terminal."""
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"{_CLEAR}{line[:width]}")
        sys.stderr.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Remove the line, if there is one."""
        if self._is_shown:
            self._is_shown = False
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


LIVE: Final = LiveLine()
SILENCE: Final = SilenceTeller(_write)
"""Teller of long silences, from the start of Spark to the end of the command."""


def confirm(question: str) -> None:
    """Ask the user a question on stderr, and end the command unless the answer is yes."""
    SILENCE.stop()
    typer.confirm(question, abort=True, err=True)
    SILENCE.start()


def tell(error: SessionizerError) -> None:
    """Print the error and its remedy on stderr, and the other problems of the same spec."""
    typed = CommandLine.typed()
    for each in every_problem(error):
        say(f"error: {typed.complete(redact(str(each)))}")
        say(f"remedy: {typed.complete(remedy_for(each, typed.stream))}")
        for note in getattr(each, "__notes__", ()):
            say(f"note: {typed.complete(redact(note))}")


def start_spark(application: str, master: str | None, *, local_data: bool = True) -> SparkSession:
    """Start a session for a command whose work may be cut off anywhere: Ctrl-C then ends it at once and in silence.

    ``local_data``: as for ``spark_session``. Raises JvmNotStarted, and the error that Spark's own amounts to.
    """
    from sessionizer.spark.session import spark_session  # noqa: PLC0415  fast --help

    SILENCE.show = LIVE.show if sys.stderr.isatty() else None
    SILENCE.work = lambda: None
    SILENCE.start()
    signal.signal(signal.SIGINT, _end_at_once)
    with hide_airflows(os.environ), _children_print_on_stderr(), translate_failures(application):
        spark = spark_session(application, master, local_data=local_data)
    signal.signal(signal.SIGINT, _end_at_once)  # again: Spark's own talks to a JVM that is in the middle of a call
    if LOG_LEVEL not in os.environ:
        spark.sparkContext.setLogLevel("ERROR")  # a command says itself what its user must know
    SILENCE.work = lambda: _work_of(spark)
    return spark


@contextmanager
def working_spark(
    verb: str, stream: str, master: str | None, line: str, data: DataPath | None = None
) -> Iterator[SparkSession]:
    """Say the ``line``, and start Spark for the block. An error of Spark in it becomes one about ``stream``.

    ``master``: as typed. ``data``: the place of the stream's files. Raises JvmNotStarted.
    """
    say(line)
    local_data = data is None or is_local(data)
    spark = start_spark(f"sessionizer {verb} {stream}".rstrip(), spark_master(master), local_data=local_data)
    with translate_failures(stream):
        yield spark
    spark.stop()


def _work_of(spark: SparkSession) -> Work | None:
    tracker = spark.sparkContext.statusTracker()
    stages = sorted(tracker.getActiveStageIds())
    known = [info for info in map(tracker.getStageInfo, stages) if info is not None]
    done, total = sum(each.numCompletedTasks for each in known), sum(each.numTasks for each in known)
    return Work(stages[0], done, total) if known else None


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
    try:
        command, shown = "`sessionizer status`", "an operation that was begun and how to resume it"
        with suppress(Exception):  # it imports the command, maybe in the middle of the same import
            command = CommandLine.typed().complete(command)
        say(f"interrupted: run {command}, which shows {shown}")
    finally:
        os._exit(INTERRUPTED)  # the JVM ends when our end of its pipe closes; uncommitted Delta files are invisible


@contextmanager
def translate_failures(stream: str) -> Iterator[None]:
    """Turn every error of Spark in the block into one of ours. An end of the command passes."""
    try:
        yield
    except (SessionizerError, typer.Exit, typer.Abort):
        raise
    except Exception as error:
        raise translate_failure(stream, error) from error


def translate_failure(stream: str, error: Exception) -> SessionizerError:
    """Return the error of ours that fits ``error``."""
    if isinstance(error, SessionizerError):
        return error
    from pyspark.errors import AnalysisException  # noqa: PLC0415  fast --help

    from sessionizer.spark.driver.executors import words_of_this_jvm  # noqa: PLC0415
    from sessionizer.spark.failures.query_failure import classify_failure  # noqa: PLC0415
    from sessionizer.spark.internals.java_errors import java_message  # noqa: PLC0415

    if isinstance(error, AnalysisException):
        return QueryFailed(stream, "analysis", java_message(error))
    return classify_failure(stream, error, words_of_this_jvm)
