"""A good spec, and how to change one thing of it."""

from __future__ import annotations

import copy
from typing import Any

GOOD: dict[str, Any] = {
    "name": "visits",
    "source": {"format": "files", "path": "feed", "encoding": "json", "columns": "u string, t timestamp, i string"},
    "mapping": {"key": "u", "event_time": "t", "event_id": "i", "payload": {"page": "page"}},
}
KAFKA = {"format": "kafka", "bootstrap_servers": "broker:9092", "topic": "clicks", "encoding": "text"}

ABSENT = object()
"""As a change: take the key away."""


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the good spec with ``changes``: slash-separated path to value."""
    spec = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *blocks, last = path.split("/")
        block = spec
        for step in blocks:
            block = block.setdefault(step, {})
        if value is ABSENT:
            del block[last]
        else:
            block[last] = value
    return spec
