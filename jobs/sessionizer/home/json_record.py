"""Dataclasses as JSON, readable by older and newer releases than the writer's."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias

from sessionizer.home.stamp import UNSTAMPED

JsonObject: TypeAlias = "dict[str, Any]"


class UnfitValue(ValueError):
    """A field whose value is missing or of the wrong type."""


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """Base of records. Fields are str, int, float, bool, a StrEnum, a record, a mapping of JSON, or a tuple of these.

    Each may be ``| None``. ``FORMAT`` grows when a field changes its meaning. Adding or removing a field does not
    change it. ``from_json`` reads all formats.
    """

    FORMAT: ClassVar[int] = UNSTAMPED

    def to_json(self) -> JsonObject:
        """Return the fields by name. A float that is not finite becomes null, because JSON has no word for it."""
        return {field.name: _encoded(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse the record in ``value``. Unknown keys are ignored, absent and null ones take their default.

        Raises ValueError for a missing key without default or a value of another type.
        """
        hints = _hints(cls)  # type: ignore[arg-type]
        given: dict[str, Any] = {}
        for field in fields(cls):
            hint, found = hints[field.name], value.get(field.name)
            if found is not None or (field.name in value and _is_required(field) and _allows_none(hint)):
                given[field.name] = _decoded(field.name, hint, found)
            elif _is_required(field):
                raise UnfitValue(f"{field.name} is missing")
        return cls(**given)


def _is_required(field: Any) -> bool:  # noqa: ANN401 - a field of any type
    return field.default is MISSING and field.default_factory is MISSING


def _encoded(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _encoded(part) for name, part in value.items()}
    return [_encoded(part) for part in value] if isinstance(value, list | tuple) else value


@cache
def _hints(kind: type[JsonRecord]) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _allows_none(hint: Any) -> bool:  # noqa: ANN401 - type hints have no common type
    return isinstance(hint, types.UnionType) and types.NoneType in typing.get_args(hint)


def _decoded(name: str, hint: Any, found: Any) -> Any:  # noqa: ANN401 - as above
    """Parse the value of field ``name``. Raises UnfitValue, and ValueError for an unknown value of an enum."""
    if _allows_none(hint):
        hint = (
            types.NoneType
            if found is None
            else next(part for part in typing.get_args(hint) if part is not types.NoneType)
        )
    kind = typing.get_origin(hint) or hint
    if issubclass(kind, StrEnum) and isinstance(found, str):
        return kind(found)
    if issubclass(kind, JsonRecord) and isinstance(found, dict):
        return kind.from_json(found)
    if kind is tuple and isinstance(found, list):
        return tuple(_decoded(name, typing.get_args(hint)[0], part) for part in found)
    if kind is float and type(found) is int:
        return float(found)
    # Not isinstance: True is an int, and a pid of True is damage.
    if type(found) is (dict if kind is Mapping else kind):
        return found
    raise UnfitValue(f"{name} is {found!r}, not {kind.__name__}")
