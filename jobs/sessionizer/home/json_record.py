"""Flat dataclasses as JSON, readable by older and newer releases than the writer's."""

from __future__ import annotations

import math
import types
import typing
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from sessionizer.home.stamp import UNSTAMPED

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject: TypeAlias = "dict[str, Any]"


class UnfitValue(ValueError):
    """A field whose value is missing or of the wrong type."""


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """Base of all control records: fields are str, int, float, bool or a StrEnum, or one of these ``| None``.

    ``FORMAT`` grows when a field changes its meaning. Adding or removing a field does not change it. ``from_json``
    reads all formats.
    """

    FORMAT: ClassVar[int] = UNSTAMPED

    def to_json(self) -> JsonObject:
        """Return the fields by name. A float that is not finite becomes null, because JSON has no word for it."""
        return {field.name: _encoded(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Self:
        """Parse the record in ``value``. Unknown keys are ignored, absent and null ones take their default.

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


def _encoded(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, StrEnum) else value


def _field_types(kind: type[JsonRecord]) -> Mapping[str, Any]:
    """Return the type of each field, without its ``| None``."""
    return {name: _remove_none(hint) for name, hint in typing.get_type_hints(kind).items()}


def _remove_none(hint: Any) -> Any:  # noqa: ANN401 - type hints have no common type
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
