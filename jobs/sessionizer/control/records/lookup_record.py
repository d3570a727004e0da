"""Questions to the driver about a key, and its answers: ``lookups/<id>.json`` and ``lookups/answer.<id>.json``.

Only the driver has a Spark that is warm. It answers within a second or two, from the state of the newest batch. The
process that asks removes both files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.clock import MINUTE
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile
from sessionizer.home.roots import is_local

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

KEY_LIMIT: Final = 1_024
"""Characters of a key that may be asked about."""
LOCAL_EVERY_MS: Final = 250
STORE_EVERY_MS: Final = 5_000
"""Milliseconds between two looks for questions in a store, because each look is a request, which may be paid for."""
KEPT_MS: Final = MINUTE
"""Milliseconds after which a question or an answer is removed, because the process that asked is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(JsonRecord):
    """A question about the open sessions of ``key``, ``at`` then (epoch ms)."""

    key: str
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(JsonRecord):
    """The driver's answer at ``at`` (epoch ms), from the state after ``batch_id`` of ``lineage``.

    ``sessions`` are as in ``sessionizer state show --key``, with their newest events. ``error`` says why there are
    none.
    """

    at: Moment
    key: str
    lineage: str | None = None
    batch_id: int | None = None
    watermark_ms: int | None = None
    key_group: int | None = None
    sessions: tuple[Mapping[str, Any], ...] = field(default=())
    error: str | None = None


QUESTION_FILE: Final = ControlFile("lookups/{}.json", Question, key="lookup", durable=False)
ANSWER_FILE: Final = ControlFile("lookups/answer.{}.json", Answer, key="lookup", durable=False)


def look_every_ms(home: StreamHome) -> int:
    """Return the milliseconds between two looks of the driver for questions."""
    return LOCAL_EVERY_MS if is_local(home.control_base) else STORE_EVERY_MS
