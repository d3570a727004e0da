"""The environment variable ``SESSIONIZER_PLAIN_SPARK``, which switches every door to the public way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sessionizer.errors import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN_SPARK: Final = "SESSIONIZER_PLAIN_SPARK"


def plain(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether only public interfaces may be used. Raises InvalidSpec for a value that is neither 1 nor 0 nor empty."""
    value = environment.get(PLAIN_SPARK, "")
    if value not in ("", "0", "1"):
        raise InvalidSpec(PLAIN_SPARK, value, "1 (public interfaces of Spark only) or 0, or unset it")
    return value == "1"
