"""Values that are made from records, and kept until one of these records changes.

The contents of records are compared, not the times of their files. So a kept value is what a new look would make.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.home.control_store import ControlStore
    from sessionizer.home.roots import ControlPath, DataPath

Value = TypeVar("Value")


class Looks:
    """Looks at a control root, each done once, with its answer."""

    def __init__(self) -> None:
        self._answers: dict[tuple[ControlPath | DataPath, str], tuple[Callable[[], Any], Any]] = {}

    def look(self, path: ControlPath | DataPath, operation: str, do: Callable[[], Any]) -> Any:  # noqa: ANN401  of any operation
        """Return the answer to an ``operation`` at ``path``, which ``do`` carries out the first time."""
        if (path, operation) not in self._answers:
            self._answers[path, operation] = do, _answer(do)
        answer = self._answers[path, operation][1]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def have_same_answers(self) -> bool:
        """Whether each look has the same answer now. A place that cannot be reached has none."""
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


class KeptValue(Generic[Value]):
    """A value, with the looks at records that it was made from."""

    def __init__(self) -> None:
        self._made: tuple[tuple[object, ...], Looks, Value] | None = None

    def get(self, make: Callable[[], Value], *of: object) -> Value:
        """Return the value of ``make``, called anew if a record that it looked at or something in ``of`` changed.

        ``make`` depends on nothing else. It raises what it raises, and an error is not kept.
        """
        if self._made is not None and self._made[0] == of and self._made[1].have_same_answers():
            return self._made[2]
        looks = Looks()
        outer = _LOOKS.set(looks)
        try:
            value = make()
        finally:
            _LOOKS.reset(outer)
        self._made = of, looks, value
        return value


class _NotedStore:
    """A store whose looks are noted."""

    def __init__(self, store: ControlStore, path: ControlPath, looks: Looks) -> None:
        self._store, self._path, self._looks = store, path, looks

    def read(self) -> bytes:
        return cast("bytes", self._looks.look(self._path, "read", self._store.read))

    def names(self) -> list[str]:
        return cast("list[str]", self._looks.look(self._path, "names", self._store.names))

    def exists(self) -> bool:
        return cast("bool", self._looks.look(self._path, "exists", self._store.exists))

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


_LOOKS: Final[ContextVar[Looks | None]] = ContextVar("looks", default=None)


def look_at(path: ControlPath | DataPath, operation: str, do: Callable[[], Value]) -> Value:
    """Do an ``operation`` at ``path``, so that a value that is being made is kept with the answer."""
    looks = _LOOKS.get()
    return do() if looks is None else cast("Value", looks.look(path, operation, do))


def noted(store: ControlStore, path: ControlPath) -> ControlStore:
    """Return the store of ``path``, so that a value that is being made is kept with its looks at it."""
    looks = _LOOKS.get()
    return store if looks is None else cast("ControlStore", _NotedStore(store, path, looks))
