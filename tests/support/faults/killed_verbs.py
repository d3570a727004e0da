"""A verb that is killed before each of its writes in turn, and one that is overtaken at each look at its lease.

A write is a file of the stream that gets its name, or a folder of it that goes: what stands between two of them was not
seen by anybody. After a kill nothing of the process happens any more, so every later write is refused as well.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import pytest

from sessionizer.control.lease.lease import Lease
from sessionizer.errors import LeaseLost
from sessionizer.home.atomic_file import examine_json
from support.expected.folder_digest import settled_digest
from support.faults.lost_lease import lose_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sessionizer.home.stream_home import StreamHome

Result = TypeVar("Result")
_IDS: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}|\d{8}(?=\.json)")
"""Of operations and lineages, and tokens."""
_BEAT: Final = "heartbeat.json"
"""Comes by the clock, from a thread of its own."""
_OF_NO_CONSEQUENCE: Final = re.compile(r"control/lease|punctuations/|open_sessions|checkpoint\.json|begun\.json")
"""Writes before which a kill finds the stream as it does before the next one of the others."""


class Killed(BaseException):
    """What a process dies of that gets no chance to clean up."""


class KilledElsewhere(Exception):
    """The same in a thread that must answer Spark."""


def killed_before_each_write(
    home: StreamHome, run: Callable[[], Result], after_each: Callable[[], None] = lambda: None
) -> tuple[Result, list[str]]:
    """What ``run`` comes to, typed again after each kill: every one comes before the first write that none came before.

    ``after_each`` kill. Returns the writes before which it was killed, too.
    """
    fatal: list[str] = []
    while True:
        dying = _Dying(home.root, fatal)
        result: list[Result] = []
        with dying.before_the_next():
            try:
                result.append(run())
            except BaseException:
                if not dying.dead:
                    raise
        if not dying.dead:
            return result[0], fatal
        lose_lease(home)
        after_each()


class _Dying:
    """A process that lives until it is about to make a write below ``root`` that is not among ``fatal`` yet."""

    def __init__(self, root: Path, fatal: list[str]) -> None:
        self._root, self._fatal = root, fatal
        self._seen = Counter[str]()
        self.dead = False

    @contextmanager
    def before_the_next(self) -> Iterator[None]:
        """In here that write is not made, nor any after it."""
        with pytest.MonkeyPatch.context() as patched:
            for module, function in ((os, "replace"), (os, "link"), (shutil, "rmtree")):
                patched.setattr(module, function, self._watched(getattr(module, function)))
            yield

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **more: Any) -> Any:
            self._look(
                original.__name__, [Path(os.fspath(each)) for each in arguments[:2] if not isinstance(each, bool)]
            )
            return original(*arguments, **more)

        return watched

    def _look(self, function: str, paths: list[Path]) -> None:
        if not paths[-1].is_relative_to(self._root) or paths[-1].name == _BEAT:
            return
        write = f"{function} {_IDS.sub('*', paths[-1].relative_to(self._root).as_posix())}{_step_in(paths[0])}"
        self._seen[write] += 1
        write = f"{write} #{self._seen[write]}"
        if not self.dead and write not in self._fatal and not _OF_NO_CONSEQUENCE.search(write):
            self._fatal.append(write)
            self.dead = True
        if self.dead:
            raise Killed if threading.current_thread() is threading.main_thread() else KilledElsewhere


def _step_in(file: Path) -> str:
    """Of the record of an operation: how far it has come, and how it has ended."""
    record = examine_json(file).value or {}
    return f" {record['step']} {record.get('outcome')}" if "step" in record else ""


def overtaken_at_each_look(home: StreamHome, run: Callable[[], Result]) -> tuple[Result, int]:
    """What ``run`` comes to, and how often it was overtaken.

    The first run is as slow before its first look at its lease as it takes another machine to find it dead and to type
    the verb again; the second one is before its second look, and so on. When they go on in the end, none of them
    changes what the last one has made.
    """
    chain = _Overtaken(home, run)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Lease, "check", chain.slow(Lease.check))
        chain.type_again()
    return chain.results[0], len(chain.looks) - 1


class _Overtaken(Generic[Result]):
    """Runs within runs; ``looks``: of each at its lease, ``results``: the last one's comes first."""

    def __init__(self, home: StreamHome, run: Callable[[], Result]) -> None:
        self._home, self._run = home, run
        self.looks: list[int] = []
        self.results: list[Result] = []
        self._made: dict[str, str] | None = None

    def slow(self, check: Callable[[Lease], None]) -> Callable[[Lease], None]:
        """The look, before which there may be time for another run."""

        def look(lease: Lease) -> None:
            if not self.results:
                self.looks[-1] += 1
                if self.looks[-1] == len(self.looks):
                    lose_lease(self._home)
                    self.type_again()
            check(lease)

        return look

    def type_again(self) -> None:
        """A run, and those that it is overtaken by."""
        self.looks.append(0)
        number = len(self.looks)
        try:
            self.results.append(self._run())
        except LeaseLost:
            assert self.results, "nobody has overtaken it"
        found = settled_digest(self._home.root)
        assert self._made in (None, found), f"the run that was slow at look {number} has written"
        self._made = found
