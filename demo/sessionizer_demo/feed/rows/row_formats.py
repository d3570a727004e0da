"""The streams a feed can play: how each writes its rows, and which kinds it can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer_demo.feed.rows.access_log import ACCESS_LOG_KINDS, write_access_log_line
from sessionizer_demo.feed.rows.click_rows import CLICK_KINDS, write_click

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from sessionizer_demo.feed.rows.kinds import RowKind
    from sessionizer_demo.feed.traffic.events import ClickEvent


@dataclass(frozen=True, slots=True)
class RowFormat:
    """``write`` makes the bytes of a row, ``kinds`` are those it can show, ``suffix`` is that of its files."""

    write: Callable[[ClickEvent, RowKind, Random], bytes]
    kinds: frozenset[RowKind]
    suffix: str


ROW_FORMATS = {
    "clicks": RowFormat(write_click, CLICK_KINDS, ".json"),
    "access_log": RowFormat(write_access_log_line, ACCESS_LOG_KINDS, ".log"),
}
