"""Records as JSON, with a stamp in every file of the platform: its format, and the process that wrote it.

An older format is always readable. A newer one is refused, because a guess at it could start a stopped stream or lose
an open session.
"""

import hashlib
import json
import math
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, cast

from annotated_types import Interval

from sessionizer.errors import DamagedFile
from sessionizer.home.roots import DataPath, uri_of

FORMAT: Final = "format"
WRITER: Final = "writer"
UNSTAMPED: Final = 1
"""The format of a file without a stamp, as the first releases wrote it."""


def add_stamp(content: Mapping[str, object], format_number: int = UNSTAMPED) -> dict[str, Any]:
    """Return ``content`` with its stamp: ``writer`` is ``<pid>@<host>``, in the form that a JVM uses."""
    return {FORMAT: format_number, WRITER: f"{os.getpid()}@{socket.gethostname()}", **content}


def json_digest(content: Mapping[str, object]) -> str:
    """Return the SHA-256 (64 hex digits) of JSON, whatever the order of its keys."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def typed_digest(decided: Mapping[str, object]) -> str:
    """Return the text that a user types to approve ``decided``: 16 hex digits of its digest. None matches by chance."""
    return json_digest(decided)[:16]


def unknown_format(content: Mapping[str, object], newest: int = UNSTAMPED) -> str | None:
    """Describe the problem with the format of ``content`` for a reader of formats up to ``newest``, or None."""
    found = content.get(FORMAT, UNSTAMPED)
    if type(found) is int and UNSTAMPED <= found <= newest:
        return None
    return f"it has format {found!r}, and this release reads {newest} at most: a newer release wrote it"


def require_known_format(path: DataPath, content: Mapping[str, object], newest: int = UNSTAMPED) -> None:
    """Raise DamagedFile if ``content``, which was read from ``path``, has an unknown format."""
    damage = unknown_format(content, newest)
    if damage is not None:
        raise DamagedFile(uri_of(path), damage)


JsonObject: TypeAlias = "dict[str, Any]"
_WORD: Final = 64
Moment: TypeAlias = Annotated[int, Interval(ge=0, lt=253_402_300_800_000)]
"""Epoch ms of a year up to 9999: the times that a clock shows and a text can have."""


def parse_json(content: bytes | str) -> Any:  # noqa: ANN401  any JSON
    """Parse JSON that a program has written. Raises ValueError.

    It refuses numbers that are not finite or have more than 64 bits, which Python's parser takes. Half a character,
    which Python's writer lets through, becomes a question mark, because no output could show it.
    """
    text = content if isinstance(content, str) else content.decode()
    parser = _PARSER if _SUSPICIOUS.search(text) else _FAST_PARSER
    try:
        value = parser.decode(text)
        if "\\ud" in text.lower():
            value = _PARSER.decode(json.dumps(value, ensure_ascii=False).encode(errors="replace").decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _whole(text: str) -> int:
    if len(text) > _WORD or (number := int(text)).bit_length() >= _WORD:
        raise ValueError(f"{text[:_WORD]} is no number of {_WORD} bits")
    return number


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:_WORD]} is no finite number")
    return number


_PARSER: Final = json.JSONDecoder(parse_int=_whole, parse_float=_finite, parse_constant=_finite)
_FAST_PARSER: Final = json.JSONDecoder(parse_constant=_finite)
"""For a text without a number that may be too large. It calls no function of ours for each number."""
_SUSPICIOUS: Final = re.compile(r"\d{19}|[eE][+-]?\d{3}")


class UnfitValue(ValueError):
    """A field whose value is missing or of the wrong type."""


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """Base of records. Fields are str, int, float, bool, a StrEnum, a record, a mapping of JSON, or a tuple of these.

    Each may be ``| None``. ``FORMAT`` grows when a field changes its meaning, not when one is added or removed.
    """

    FORMAT: ClassVar[int] = UNSTAMPED
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"strict": True}

    def to_json(self) -> JsonObject:
        """Return the fields by name. A float that is not finite becomes null, because JSON has no word for it."""
        return {field.name: _encode(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Parse ``value``: unknown keys are ignored, absent and null ones take their default. Raises UnfitValue."""
        from pydantic_core import ValidationError, to_json  # noqa: PLC0415  only a process that reads a record pays it

        required, adapter = _reader(cls)  # type: ignore[arg-type]
        given = {name: found for name, found in value.items() if found is not None or name in required}
        try:
            return cast("Self", adapter.validate_json(to_json(given)))
        except ValidationError as error:
            about = error.errors(include_url=False)[0]
            name, found = ".".join(map(str, about["loc"])) or "it", about["input"]
            if about["type"] == "missing" or found is None:
                raise UnfitValue(f"{name} is missing") from error
            raise UnfitValue(f"{name} is {found!r}, which {about['msg'].removeprefix('Input ')}") from error


@cache
def _reader(kind: type[JsonRecord]) -> tuple[frozenset[str], Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415

    required = (each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING)
    return frozenset(required), TypeAdapter(kind)


def _encode(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _encode(part) for name, part in value.items()}
    return [_encode(part) for part in value] if isinstance(value, list | tuple) else value
