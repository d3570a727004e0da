"""What a key group makes of the punctuations of one batch, in whatever order they come."""

from __future__ import annotations

import json
from itertools import permutations

from sessionizer.core.wire import schema as rows
from sessionizer.spark.query.processor import GroupShare


def timeouts(said_at_ms: int, **changes: int) -> bytes:
    told = [{"client": client, "timeout_ms": timeout_ms} for client, timeout_ms in changes.items()]
    return json.dumps({"timeouts": told, "said_at_ms": said_at_ms}).encode()


def test_of_several_changes_the_last_said_holds() -> None:
    said = (timeouts(1, acme=60, globex=7), timeouts(2, acme=10), timeouts(3, acme=30), json.dumps({}).encode())
    for order in permutations(said):
        share = GroupShare()
        for blob in order:
            share.take(rows.PUNCTUATION, blob)
        assert share.changed_timeouts == {"acme": 30, "globex": 7}


def test_of_several_floors_the_highest_holds() -> None:
    for order in permutations((b'{"floor_ms": 5}', b'{"floor_ms": 9}', b'{"floor_ms": null}')):
        share = GroupShare()
        for blob in order:
            share.take(rows.PUNCTUATION, blob)
        assert share.floor_ms == 9
