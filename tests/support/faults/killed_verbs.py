"""A verb that is killed before each of its writes in turn, and one that is overtaken at each look at its lease.

A write is a file of the stream that gets its name, a folder of it that goes, or a commit to one of its tables: what
stands between two of them was not seen by anybody. After a kill nothing of the process happens any more, so every later
write is refused as well.
"""

import os
import re
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, Generic, TypeVar

import pytest

from sessionizer.control.lease import Lease, read_lease
from sessionizer.errors import LeaseLost
from sessionizer.home.record_file import examine_json
from sessionizer.home.stream_home import StreamHome
from sessionizer.spark.sinks import write
from sessionizer.spark.state import erasing
from sessionizer.spark.state.restores import table_rows
from support.expected.file_accesses import settled_digest
from support.verbs.scripted_runner import Killed, lose_lease

Result = TypeVar("Result")
_NAMING: Final = ((os, "replace"), (os, "rename"), (os, "link"), (shutil, "rmtree"))
_COMMITTING: Final = (
    *((table_rows, "delete_rows"), (table_rows, "write_once"), (write, "write_once")),
    *((erasing, "change_rows_of"), (erasing, "purge")),
)
"""What writes a table, the second argument says which."""
_IDS: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}|\d{8}(?=\.json)")
"""Of operations and lineages, and tokens."""
_BEAT: Final = "heartbeat.json"
_BEATING: Final = "heartbeat"
"""Comes by the clock, from a thread of its own."""
_OF_NO_CONSEQUENCE: Final = re.compile(r"control/lease|punctuations/|open_sessions|checkpoint\.json|begun\.json")
"""Writes before which a kill finds the stream as it does before the next one of the others."""


_MOST_AT_ONE_PLACE: Final = 8
"""Looks at the lease from one line: a new lineage has six steps."""


class KilledElsewhere(Exception):
    """The same in a thread that must answer Spark."""


def killed_before_each_write(
    home: StreamHome,
    run: Callable[[], Result],
    after_each: Callable[[], None] = lambda: None,
    *,
    below: Path | None = None,
    spared: str = "",
) -> tuple[Result, list[str]]:
    """What ``run`` comes to, typed again after each kill: every one comes before the first write that none came before.

    ``after_each`` kill. Returns the writes before which it was killed, too. ``below``: all that it may write is there,
    if not in the ``home``. ``spared``: pattern of writes before which it is not killed.
    """
    fatal: list[str] = []
    while True:
        dying = _Dying(below or home.root, fatal, spared)
        result: list[Result] = []
        with dying.before_the_next():
            try:
                result.append(run())
            except BaseException:
                if not dying.dead:
                    raise
        if not dying.dead:
            return result[0], fatal
        if read_lease(home) is not None:  # of a stream that never ran nobody had it, before that is written
            lose_lease(home)
        after_each()


class _Dying:
    """A process that lives until it is about to make a write below ``root`` that is not among ``fatal`` yet."""

    def __init__(self, root: Path, fatal: list[str], spared: str = "") -> None:
        self._root, self._fatal, self._spared = root, fatal, spared
        self._seen = Counter[str]()
        self.dead = False

    @contextmanager
    def before_the_next(self) -> Iterator[None]:
        """In here that write is not made, nor any after it."""
        with pytest.MonkeyPatch.context() as patched:
            for module, function in _NAMING:
                patched.setattr(module, function, self._watched(getattr(module, function), self._named))
            for module, function in _COMMITTING:
                patched.setattr(module, function, self._watched(getattr(module, function), _committed))
            yield

    def _watched(
        self, original: Callable[..., Any], said: Callable[[tuple[Any, ...]], str | None]
    ) -> Callable[..., Any]:
        def watched(*arguments: Any, **more: Any) -> Any:
            what = said(arguments)
            if what is not None:
                self._look(f"{original.__name__} {what}")
            return original(*arguments, **more)

        return watched

    def _named(self, arguments: tuple[Any, ...]) -> str | None:
        """What gets its name, or goes; None where that is no business of the stream."""
        paths = [Path(os.fspath(each)) for each in arguments[:2] if not isinstance(each, bool)]
        if not paths[-1].is_relative_to(self._root) or paths[-1].name == _BEAT:
            return None
        return f"{_IDS.sub('*', paths[-1].relative_to(self._root).as_posix())}{_step_in(paths[0])}"

    def _look(self, write: str) -> None:
        self._seen[write] += 1
        write = f"{write} #{self._seen[write]}"
        is_spared = _OF_NO_CONSEQUENCE.search(write) or (self._spared and re.search(self._spared, write))
        if not self.dead and write not in self._fatal and not is_spared:
            self._fatal.append(write)
            self.dead = True
        if self.dead:
            raise Killed if threading.current_thread() is threading.main_thread() else KilledElsewhere


def _committed(arguments: tuple[Any, ...]) -> str:
    return str(arguments[1]).rpartition("/")[2]


def _step_in(file: Path) -> str:
    """Of the record of an operation: how far it has come, and how it has ended."""
    record = examine_json(file).value or {}
    return f" {record['step']} {record.get('outcome')}" if "step" in record else ""


def overtaken_at_each_look(
    home: StreamHome, run: Callable[[], Result], *, below: Path | None = None
) -> tuple[Result, int]:
    """What ``run`` comes to, and how often it was overtaken. ``below``: all that it may write is there.

    The first run is as slow before its first look at its lease as it takes another machine to find it dead and to type
    the verb again; the second one is before its second look, and so on. When they go on in the end, none of them
    changes what the last one has made.
    """
    chain = _Overtaken(home, run, below or home.root)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Lease, "check", chain.slow(Lease.check))
        chain.type_again()
    return chain.results[0], len(chain.looks) - 1


class _Overtaken(Generic[Result]):
    """Runs within runs; ``looks``: of each at its lease, ``results``: the last one's comes first."""

    def __init__(self, home: StreamHome, run: Callable[[], Result], root: Path) -> None:
        self._home, self._run, self._root = home, run, root
        self.looks: list[int] = []
        self._places: list[Counter[tuple[str, int]]] = []
        self.results: list[Result] = []
        self._made: dict[str, str] | None = None

    def slow(self, check: Callable[[Lease], None]) -> Callable[[Lease], None]:
        def look(lease: Lease) -> None:
            if not self.results and threading.current_thread().name != _BEATING and self._is_new(sys._getframe(1)):
                self.looks[-1] += 1
                if self.looks[-1] == len(self.looks):
                    lose_lease(self._home)
                    self.type_again()
            check(lease)

        return look

    def _is_new(self, place: FrameType) -> bool:
        """Of a loop over files the first looks tell what the others would."""
        seen, here = self._places[-1], (place.f_code.co_filename, place.f_lineno)
        seen[here] += 1
        return seen[here] <= _MOST_AT_ONE_PLACE

    def type_again(self) -> None:
        self.looks.append(0)
        self._places.append(Counter())
        number = len(self.looks)
        try:
            self.results.append(self._run())
        except LeaseLost:
            assert self.results, "nobody has overtaken it"
        found = {name: of for name, of in settled_digest(self._root).items() if not name.endswith(_BEAT)}
        assert self._made in (None, found), f"the run that was slow at look {number} has written"
        self._made = found
