"""What the form of ``sessionizer.operate`` asks for: pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from sessionizer.errors import InvalidSpec
from sessionizer.home.names import checked_identifier, checked_name
from sessionizer.stream_spec.document.section import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGITS: Final = 16


class Operation(StrEnum):
    """What can be asked for."""

    SAVEPOINT = "savepoint"
    RESTORE = "restore"


@dataclass(frozen=True, kw_only=True)
class Request:
    """An ``operation`` on ``stream``. A restore is to ``savepoint``, by its id, or to the newest not after ``time``.

    ``id`` is the request's own, the same for every try of every task of its run.
    """

    id: str
    operation: Operation
    stream: str
    savepoint: str | None = None
    time: str | None = None
    why: str = ""

    @classmethod
    def of_run(cls, run_id: str, form: Mapping[str, object]) -> Self:
        """What was filled into the form. Raises InvalidSpec, with the field as the form calls it."""
        text = {name: str(value) for name, value in form.items() if value not in (None, "")}
        operation, stream = Operation(text["verb"]), checked_name("stream", text["stream"])
        savepoint, time = text.get("savepoint"), text.get("time")
        _require_fitting(operation, savepoint, time)
        return cls(
            id=request_id(run_id),
            operation=operation,
            stream=stream,
            savepoint=None if savepoint is None else checked_identifier("savepoint", savepoint),
            time=time,
            why=text.get("why", ""),
        )


def request_id(run_id: str) -> str:
    """A name for what belongs to the run: an id of Airflow's may hold anything."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:_DIGITS]


def _require_fitting(operation: Operation, savepoint: str | None, time: str | None) -> None:
    if operation is Operation.RESTORE and savepoint is None and time is None:
        raise InvalidSpec("savepoint", Shown("empty, and so is the time"), "the id of a savepoint, or none and a time")
    if operation is Operation.RESTORE and savepoint is not None and time is not None:
        raise InvalidSpec("time", time, f"nothing: savepoint {savepoint} is asked for; one of the two says where to")
    if operation is Operation.SAVEPOINT:
        for field, value in (("savepoint", savepoint), ("time", time)):
            if value is not None:
                raise InvalidSpec(field, value, "nothing: the savepoint that is asked for is a new one, of now")
