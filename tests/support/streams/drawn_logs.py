"""Draw of the random logs that `make test` streams: other ones for each commit, so that in time it has streamed all.

`make test-long` streams the rest. The number of a log is in the name of its test, which any commit can run.
"""

from __future__ import annotations

import subprocess
from random import Random
from typing import TYPE_CHECKING

from support.places import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


def commit() -> str:
    """Hash of the commit that is tested, empty outside a repository."""
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()


def draw(kinds: Sequence[Hashable], count: int, seed: str) -> list[int]:
    """Draw ``count`` different numbers of logs, in order. Each kind is there, if ``count`` allows it."""
    numbers = Random(seed).sample(range(len(kinds)), len(kinds))
    of_each_kind = {kinds[number]: number for number in reversed(numbers)}.values()
    return sorted([*of_each_kind, *(number for number in numbers if number not in of_each_kind)][:count])
