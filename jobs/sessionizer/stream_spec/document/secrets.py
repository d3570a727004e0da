"""Recognition, by name, of options that carry a secret or name code. They must not be in a file that is checked in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sessionizer.redaction import SECRET_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

SECRET_WORD: Final = re.compile("|".join((*SECRET_WORDS, "private")), re.IGNORECASE)
KEY_WORD: Final = re.compile("key(?![a-z])", re.IGNORECASE)
"""Pattern that matches ``fs.s3a.access.key``, ``accessKey`` and ``ssl.key.location``, but not ``keystore``."""

_CLASS_WORDS: Final = (
    "class", "classes", "impl", "reporters", "strategy", "serializer", "deserializer", "serializations", "codecs",
    "factory", "plugins?", "handlers?", "callbacks?", r"(?<!config\.)(?<!security\.)providers?", r"group\.mapping",
    "interceptors?", "partitioner", "pathfilter",
)  # fmt: skip
_CLASS: Final = re.compile(rf"\.({'|'.join(_CLASS_WORDS)})(?:\.|$)", re.IGNORECASE)
_PROGRAM: Final = re.compile(r"\b(?:cmd|command|script|exec|executable|program)\b", re.IGNORECASE)
_PROVIDER: Final = re.compile(r"\b(config|security)\.providers\b", re.IGNORECASE)


def looks_secret(option: str) -> bool:
    """Tell whether the value of ``option`` is likely a secret."""
    return bool(SECRET_WORD.search(option) or KEY_WORD.search(option))


def holds_secret(path: Sequence[str]) -> bool:
    """Tell whether the value at ``path`` (YAML keys) must be kept out of messages and logs.

    Outside of options the word "key" is harmless: ``mapping.key`` names the user's column.
    """
    among_options = any(step.startswith("options") for step in path[:-1])
    return bool(path) and bool(looks_secret(path[-1]) if among_options else SECRET_WORD.search(path[-1]))


def names_code(option: str) -> bool:
    """Tell whether the value of ``option`` is the name of a class that Kafka or Hadoop loads and calls."""
    return bool(_CLASS.search(option))


def names_program(option: str) -> bool:
    """Tell whether the value of ``option`` is a program that the driver starts, as ``sasl.kerberos.kinit.cmd``."""
    return bool(_PROGRAM.search(option))


def replaces_values(option: str) -> bool:
    """Tell whether ``option`` has Kafka put variables and files of the driver into other options."""
    return bool(_PROVIDER.search(option))
