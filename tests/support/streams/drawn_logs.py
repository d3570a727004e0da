"""Draw of the logs and cases that `make test` runs: other ones for each commit, so that in time it has run all.

`make test-long` runs the rest. The number or name of each is in the name of its test, which any commit can run.
"""

import subprocess
from collections.abc import Hashable, Iterable, Sequence
from random import Random
from typing import Any

import pytest

from support.places import REPOSITORY


def commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip()


def draw(kinds: Sequence[Hashable], count: int, seed: str) -> list[int]:
    """Draw ``count`` different numbers of logs, in order. Each kind is there, if ``count`` allows it."""
    numbers = Random(seed).sample(range(len(kinds)), len(kinds))
    of_each_kind = {kinds[number]: number for number in reversed(numbers)}.values()
    return sorted([*of_each_kind, *(number for number in numbers if number not in of_each_kind)][:count])


def drawn_cases(cases: Iterable[Any], count: int) -> list[Any]:
    """Mark all but ``count`` of the cases of a matrix as long. A tuple has the values of several parameters."""
    known = [each if isinstance(each, tuple) else (each,) for each in cases]
    drawn = draw(range(len(known)), count, commit())
    return [pytest.param(*each, marks=() if number in drawn else pytest.mark.long) for number, each in enumerate(known)]
