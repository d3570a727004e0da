"""What the code under test says, kept line by line."""

from __future__ import annotations

import logging


class Heard(list[str]):
    """The lines, and in `levels` how loud each was said."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []

    def __call__(self, line: str, level: int = logging.INFO) -> None:
        self.append(line)
        self.levels.append(level)

    def at(self, level: int) -> list[str]:
        """The lines of just this level."""
        return [line for line, its in zip(self, self.levels, strict=True) if its == level]
