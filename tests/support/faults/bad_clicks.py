"""Clicks as JSON lines that must be refused, each with the reason for it; and good ones beside them."""

import copy
import json
import time
from typing import Any, Final

NOW_MS: Final = int(time.time() * 1000)
START_MS: Final = NOW_MS - 3_600_000


def click(number: int, user: str = "victim", **changed: Any) -> dict[str, Any]:
    """The ``number``-th click of a user, a second after the one before; without the columns that are ``...``."""
    columns = {
        "event_id": f"{user}-{number}",
        "user_id": user,
        "client": "acme",
        "ts": START_MS + number * 1_000,
        "type": "view",
        "page": "/cart",
        "amount": 1.5,
        "device": None,
        "timeout_s": None,
    } | changed
    return {name: value for name, value in columns.items() if value is not ...}


def line(number: int, user: str = "victim", **changed: Any) -> bytes:
    return json.dumps(click(number, user, **changed), ensure_ascii=False).encode()


BAD_LINES: Final[dict[str, tuple[bytes, str]]] = {
    "truncated": (line(0)[:40], "malformed"),
    "truncated in a string": (line(0)[:-30], "malformed"),
    "no JSON": (b"user_id=victim&ts=1", "malformed"),
    "an array": (b'[1, "a"]', "malformed"),
    "the start of another after it": (line(0) + b"{", "malformed"),
    "another whole one after it": (line(0) + line(0, "lost"), "malformed"),
    "one more after a comma": (line(0) + b"," + line(0, "lost"), "malformed"),
    "nested too deep": (b'{"page": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "malformed"),
    "half an emoji ends the key": (rb'{"user_id": "lone\ud83d", "event_id": "1", "ts": 1}', "invalid_utf8"),
    "the other half begins the id": (rb'{"user_id": "a", "event_id": "\uDE00", "ts": 1}', "invalid_utf8"),
    "the halves in the wrong order": (rb'{"user_id": "\uDE00\uD83d", "event_id": "1", "ts": 1}', "invalid_utf8"),
    "half an emoji after a whole one": (rb'{"user_id": "\ud83d\ude00\ud83d", "event_id": "1"}', "invalid_utf8"),
    "half an emoji after a backslash": (rb'{"user_id": "a\\\ud83d", "event_id": "1", "ts": 1}', "invalid_utf8"),
    "time of a wrong type": (line(0, ts="yesterday"), "wrong_type"),
    "time as a struct": (line(0, ts={"seconds": 1}), "wrong_type"),
    "time as text of another schema": (line(0, ts="2026-03-01T12:00:00Z"), "wrong_type"),
    "amount of a wrong type": (line(0, amount=[1, 2]), "wrong_type"),
    "time beyond a long": (line(0, ts=10**30), "wrong_type"),
    "time NaN": (line(0, ts=float("nan")), "malformed"),
    "timeout beyond an int": (line(0, timeout_s=3_000_000_000), "wrong_type"),
    "amount NaN": (line(0, amount=float("nan")), "malformed"),
    "key null": (line(0, user_id=None), "null_key"),
    "key missing": (line(0, user_id=...), "null_key"),
    "nothing in it": (b"{}", "null_key"),
    "key renamed by a new schema": (line(0, user_id=..., visitor="victim"), "null_key"),
    "id null": (line(0, event_id=None), "null_event_id"),
    "time null": (line(0, ts=None), "null_event_time"),
    "time missing": (line(0, ts=...), "null_event_time"),
    "time zero": (line(0, ts=0), "non_positive_event_time"),
    "time negative": (line(0, ts=-START_MS), "non_positive_event_time"),
    "time as small as can be": (line(0, ts=-(2**63)), "non_positive_event_time"),
    "microseconds for milliseconds": (line(0, ts=START_MS * 1_000), "future_event_time"),
    "year 9999": (line(0, ts=253_402_300_799_999), "future_event_time"),
    "in ten years": (line(0, ts=NOW_MS + 3_652 * 24 * 3_600_000), "future_event_time"),
    "time as large as can be": (line(0, ts=2**63 - 1), "future_event_time"),
    "timeout zero": (line(0, timeout_s=0), "non_positive_timeout"),
    "timeout negative": (line(0, timeout_s=-30), "non_positive_timeout"),
    "a megabyte": (line(0, page="x" * 1_048_576), "oversized"),
    "no UTF-8": (line(0).replace(b"/cart", b"/\xc3\x28\xff"), "invalid_utf8"),
    "no UTF-8 at the end": (line(0).replace(b"/cart", b"/\xe2\x82"), "invalid_utf8"),
}
"""What is wrong: the line, and the reason it must have in the quarantine."""

GOOD_LINES: Final[tuple[bytes, ...]] = (
    line(1, "ann"),
    line(2, "ann", type="purchase", amount=20.0),
    line(3, "ann", unheard_of={"by": ["the schema"]}),
    line(4, "ann", client=..., page=..., amount=..., device=..., type=..., timeout_s=...),
    line(5, "ann", page="}{", unheard_of=[{}, {"}": {}}]),
    line(5, "ann", page="}{") + b"  ",
    line(6, "ann", amount=-3.5),
    line(7, "ann", timeout_s=2_147_483_647),
    line(1, "bob", page="/caf\N{LATIN SMALL LETTER E WITH ACUTE}\N{SMILING FACE WITH SUNGLASSES}"),
    line(2, "b\0b"),
    line(3, " bob "),
)
"""Odd, but nothing is wrong with them; one comes twice."""
BLANK_LINES: Final[tuple[bytes, ...]] = (b"", b"   ", b"\t", b" \r")
"""No events, and nothing wrong with them."""
GOOD_SESSIONS: Final = {"ann": 7, "bob": 1, "b\0b": 1, " bob ": 1}
"""Whose they are, and how many are in the one session of each."""


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
