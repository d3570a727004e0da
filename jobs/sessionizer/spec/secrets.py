"""Which options carry a secret, going by their name: those must not stand in a file that is checked in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SECRET_WORD: Final = re.compile("password|passwd|passphrase|secret|token|jaas|credential|private", re.IGNORECASE)
KEY_WORD: Final = re.compile("key(?![a-z])", re.IGNORECASE)
"""``fs.s3a.access.key``, ``accessKey`` and ``ssl.key.location``, but not ``keystore``."""


def looks_secret(option: str) -> bool:
    """Tell whether the value of ``option`` is likely a secret."""
    return bool(SECRET_WORD.search(option) or KEY_WORD.search(option))


def holds_secret(path: Sequence[str]) -> bool:
    """Tell whether the value at ``path`` (YAML keys) must be kept out of messages and logs.

    Outside of options the word "key" is innocent: ``mapping.key`` says who the user is.
    """
    among_options = any(step.startswith("options") for step in path[:-1])
    return bool(path) and bool(looks_secret(path[-1]) if among_options else SECRET_WORD.search(path[-1]))
