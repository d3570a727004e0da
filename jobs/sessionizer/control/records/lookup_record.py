"""Questions to the driver about a key, and its answers: ``lookups/<id>.json`` and ``lookups/answer.<id>.json``.

Only the driver has a Spark that is warm. It answers within a second or two, from the state of the newest batch. The
process that asks removes both files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import ControlFile

KEY_LIMIT: Final = 1_024
"""Characters of a key that may be asked about."""
KEPT_MS: Final = 60_000
"""Milliseconds after which a question or an answer is removed, because the process that asked is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(JsonRecord):
    """A question about the open sessions of ``key``, ``at`` then (epoch ms)."""

    key: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(JsonRecord):
    """The driver's answer at ``at`` (epoch ms), from the state after ``batch_id`` of ``lineage``.

    ``sessions`` are as in ``sessionizer state show --key``, with their newest events. ``error`` says why there are
    none.
    """

    at: int
    key: str
    lineage: str | None = None
    batch_id: int | None = None
    watermark_ms: int | None = None
    key_group: int | None = None
    sessions: tuple[Mapping[str, Any], ...] = field(default=())
    error: str | None = None


QUESTION_FILE: Final = ControlFile("lookups/{}.json", Question, key="lookup", durable=False)
ANSWER_FILE: Final = ControlFile("lookups/answer.{}.json", Answer, key="lookup", durable=False)
