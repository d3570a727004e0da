"""Cache of values that are made from records. A value is made anew when one of its records changes.

The contents of records are compared, not the times of their files. So a cached value is what new reads would make.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.roots import ControlPath, DataPath

Value = TypeVar("Value")


class CachedReads:
    """Reads at a control root, each done once, with its answer."""

    def __init__(self) -> None:
        self._answers: dict[tuple[ControlPath | DataPath, str], tuple[Callable[[], Any], Any]] = {}

    def read(self, path: ControlPath | DataPath, operation: str, do: Callable[[], Any]) -> Any:  # noqa: ANN401  of any operation
        """Return the answer to an ``operation`` at ``path``, which ``do`` carries out the first time."""
        if (path, operation) not in self._answers:
            self._answers[path, operation] = do, _answer(do)
        answer = self._answers[path, operation][1]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def have_same_answers(self) -> bool:
        """Whether each read has the same answer now. A place that cannot be reached has none."""
        return all(_are_equal(_answer(do), before) for do, before in self._answers.values())


def _answer(do: Callable[[], Any]) -> Any:  # noqa: ANN401  of any operation
    try:
        return do()
    except OSError as error:
        return error


def _are_equal(now: object, before: object) -> bool:
    if isinstance(now, FileNotFoundError):
        return isinstance(before, FileNotFoundError)
    return now == before


class CachedValue(Generic[Value]):
    """A value, with the reads of records that it was made from."""

    def __init__(self) -> None:
        self._made: tuple[tuple[object, ...], CachedReads, Value] | None = None

    def get(self, make: Callable[[], Value], *of: object) -> Value:
        """Return the value of ``make``, called anew if a record that it read or something in ``of`` changed.

        ``make`` depends on nothing else. It raises what it raises, and an error is not cached.
        """
        if self._made is not None and self._made[0] == of and self._made[1].have_same_answers():
            return self._made[2]
        reads = CachedReads()
        outer = _READS.set(reads)
        try:
            value = make()
        finally:
            _READS.reset(outer)
        self._made = of, reads, value
        return value


class ReadableStore(Protocol):
    """The reads of a store, which are cached. Each raises OSError."""

    def read(self) -> bytes:
        """Read the file."""

    def names(self) -> list[str]:
        """List the names in the folder."""

    def exists(self) -> bool:
        """Whether there is such a file or folder."""


Store = TypeVar("Store", bound=ReadableStore)


class _CachedStore:
    """A store whose reads are cached."""

    def __init__(self, store: ReadableStore, path: ControlPath, reads: CachedReads) -> None:
        self._store, self._path, self._reads = store, path, reads

    def read(self) -> bytes:
        return cast("bytes", self._reads.read(self._path, "read", self._store.read))

    def names(self) -> list[str]:
        return cast("list[str]", self._reads.read(self._path, "names", self._store.names))

    def exists(self) -> bool:
        return cast("bool", self._reads.read(self._path, "exists", self._store.exists))

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


_READS: Final[ContextVar[CachedReads | None]] = ContextVar("reads", default=None)


def cached_read(path: ControlPath | DataPath, operation: str, do: Callable[[], Value]) -> Value:
    """Do an ``operation`` at ``path``, so that a value that is being made is cached with the answer."""
    reads = _READS.get()
    return do() if reads is None else cast("Value", reads.read(path, operation, do))


def cache_reads(store: Store, path: ControlPath) -> Store:
    """Return the store of ``path``, so that a value that is being made is cached with its reads of it."""
    reads = _READS.get()
    return store if reads is None else cast("Store", _CachedStore(store, path, reads))
