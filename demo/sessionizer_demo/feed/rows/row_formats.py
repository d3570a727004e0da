"""The formats of the streams that a feed can play, and the kinds of rows that each can show."""

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
    """The format of a stream's rows.

    ``write`` returns the bytes of a row, ``kinds`` are the kinds it can show, ``suffix`` is the suffix of its files.
    """

    write: Callable[[ClickEvent, RowKind, Random], bytes]
    kinds: frozenset[RowKind]
    suffix: str


ROW_FORMATS = {
    "clicks": RowFormat(write_click, CLICK_KINDS, ".json"),
    "access_log": RowFormat(write_access_log_line, ACCESS_LOG_KINDS, ".log"),
}
