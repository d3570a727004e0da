"""Flat dataclasses that live in JSON files, readable by older and newer code than wrote them."""

from __future__ import annotations

import math
import types
import typing
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from sessionizer.errors import ControlUnreachable, DamagedFile
from sessionizer.home.data_root import uri_of
from sessionizer.home.json_file import JsonObject, JsonReading, create_json, examine_json, write_json
from sessionizer.home.stamp import UNSTAMPED, stamped, unknown_format

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.control_root import ControlPath


class UnfitValue(ValueError):
    """A field whose value is missing or of the wrong type."""


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """Base of all control records: fields are str, int, float, bool or a StrEnum, or one of these ``| None``.

    ``FORMAT`` grows when a field changes its meaning; a field more or less needs none. ``from_json`` reads them all.
    """

    FORMAT: ClassVar[int] = UNSTAMPED

    def to_json(self) -> JsonObject:
        """The fields by name; a float that is not finite becomes null, which JSON can say."""
        return {field.name: _encoded(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Self:
        """The record in ``value``: unknown keys are ignored, absent and null ones take their default.

        Raises ValueError for a missing key without default or a value of another type.
        """
        types_of = _field_types(cls)
        given: dict[str, Any] = {}
        for field in fields(cls):
            found = value.get(field.name)
            if found is not None:
                given[field.name] = _decoded(field.name, types_of[field.name], found)
            elif field.default is MISSING:
                message = f"{field.name} is missing"
                raise UnfitValue(message)
        return cls(**given)


Record = TypeVar("Record", bound=JsonRecord)


@dataclass(frozen=True, slots=True)
class RecordReading(Generic[Record]):
    """What a file holds, as ``JsonReading``."""

    value: Record | None = None
    damage: str | None = None
    away: bool = False


def write_record(path: ControlPath, record: JsonRecord, *, durable: bool = True) -> None:
    """Replace ``path`` by ``record``, with its format and its writer. Raises as ``write_json``."""
    write_json(path, stamped(record.to_json(), record.FORMAT), durable=durable)


def create_record(path: ControlPath, record: JsonRecord) -> bool:
    """Create ``path`` unless it exists; True for the one caller that did. Raises as ``create_json``."""
    return create_json(path, stamped(record.to_json(), record.FORMAT))


def examine_record(kind: type[Record], path: ControlPath) -> RecordReading[Record]:
    """The ``kind`` in ``path``, telling an absent file from a damaged one. Never raises."""
    reading = examine_json(path)
    if reading.value is None:
        return RecordReading(damage=reading.damage, away=reading.away)
    damage = unknown_format(reading.value, kind.FORMAT)
    if damage is not None:
        return RecordReading(damage=f"{uri_of(path)}: {damage}")
    try:
        return RecordReading(value=kind.from_json(reading.value))
    except ValueError as error:
        return RecordReading(damage=f"{uri_of(path)}: {error}")


def read_record(kind: type[Record], path: ControlPath) -> Record | None:
    """The ``kind`` in ``path``, or None if it is absent or damaged."""
    return examine_record(kind, path).value


def require_undamaged(kind: type[Record], path: ControlPath) -> Record | None:
    """As ``read_record``, for files whose loss must not pass for absence.

    Raises DamagedFile, and ControlUnreachable where nobody can tell what it holds just now.
    """
    reading = examine_record(kind, path)
    if reading.damage is not None:
        raise unreadable(path, reading)
    return reading.value


def unreadable(path: ControlPath, reading: JsonReading | RecordReading[Any]) -> ControlUnreachable | DamagedFile:
    """What is raised of a ``reading`` with a damage."""
    kind = ControlUnreachable if reading.away else DamagedFile
    shown = path if isinstance(path, Path) else uri_of(path)
    return kind(shown, (reading.damage or "").removeprefix(f"{shown}: "))


def _encoded(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, StrEnum) else value


def _field_types(kind: type[JsonRecord]) -> Mapping[str, Any]:
    """The type of each field, without its ``| None``."""
    return {name: _without_none(hint) for name, hint in typing.get_type_hints(kind).items()}


def _without_none(hint: Any) -> Any:  # noqa: ANN401 - type hints have no common type
    if isinstance(hint, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not types.NoneType)
    return hint


def _decoded(name: str, kind: Any, found: object) -> object:  # noqa: ANN401 - as above
    if issubclass(kind, StrEnum) and isinstance(found, str):
        return kind(found)
    if kind is float and type(found) is int:
        return float(found)
    # Not isinstance: True is an int, and a pid of True is damage.
    if type(found) is not kind:
        message = f"{name} is {found!r}, not {kind.__name__}"
        raise UnfitValue(message)
    return found
