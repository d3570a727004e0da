"""File with the schemas of a store: texts in Java's form, each preceded by its length."""

from __future__ import annotations

import json
from typing import Final

_TEXT: Final = 2
_NUMBER: Final = 4
_SCHEMAS_OF_FAMILY: Final = 2
"""Schemas of a column family: of its keys and of its values, each preceded by a number."""


def schema_version(content: bytes) -> str:
    """Check the file and return its version. Raises ValueError if it is cut, or no such file."""
    if not content:
        message = "it is empty"
        raise ValueError(message)
    reader = _Reader(content)
    version = reader.text()
    if version == "v1":
        reader.schema(reader.text())
        reader.schema(reader.text())
    elif version == "v2":
        reader.schema(reader.long_text())
        reader.schema(reader.long_text())
    elif version == "v3":
        for _ in range(reader.number(_NUMBER)):
            _family(reader)
    else:
        message = f"its version is {version[:20]!r}, and known are v1 to v3"
        raise ValueError(message)
    if reader.at != len(content):
        message = "something follows its end"
        raise ValueError(message)
    return version


def _family(reader: _Reader) -> None:
    reader.text()
    for _ in range(_SCHEMAS_OF_FAMILY):
        reader.number(_TEXT)
        reader.schema(reader.long_text())
    reader.schema(reader.long_text())
    user = reader.long_text()
    if user.strip():
        reader.schema(user)


class _Reader:
    """Reader of one part after the other. It raises ValueError if the content is too short."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def number(self, size: int) -> int:
        """Read a number of ``size`` bytes."""
        return int.from_bytes(self._part(size))

    def text(self) -> str:
        """Read one text. Raises ValueError for bytes that are not UTF-8, because the file was changed."""
        try:
            return self._part(self.number(_TEXT)).decode()
        except UnicodeDecodeError:
            message = "a text in it was changed"
            raise ValueError(message) from None

    def long_text(self) -> str:
        """Read a text in pieces."""
        return "".join(self.text() for _ in range(self.number(_NUMBER)))

    @staticmethod
    def schema(text: str) -> None:
        """Check that a text is JSON."""
        try:
            json.loads(text)
        except ValueError:
            message = "a schema in it is no JSON: cut, or changed"
            raise ValueError(message) from None

    def _part(self, size: int) -> bytes:
        if self.at + size > len(self._content):
            message = "it is cut"
            raise ValueError(message)
        self.at += size
        return self._content[self.at - size : self.at]
