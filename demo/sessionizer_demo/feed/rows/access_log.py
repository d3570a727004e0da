"""Rows of the ``access_log`` stream, lines of a web server's log in the combined format.

A line is ``host - user [day/Mon/year:time zone] "request" status bytes "referer" "user agent"``. The user is the key,
``-`` if the user is unknown. The host of the referer is ``<client>.example``. A request of ``/logout`` closes the
session. Times have whole seconds. There is no event id, so a repeated line is a duplicate.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote
from zlib import crc32

from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.traffic.events import LOGOUT, PURCHASE

if TYPE_CHECKING:
    from random import Random

    from sessionizer_demo.feed.traffic.events import ClickEvent

ACCESS_LOG_KINDS = frozenset(
    {
        RowKind.NORMAL,
        RowKind.LATE_WITHIN,
        RowKind.LATE_BEYOND,
        RowKind.EXACT_DUPLICATE,
        RowKind.TRUNCATED,
        RowKind.WRONG_TYPE,
        RowKind.INVALID_UTF8,
        RowKind.NULL_KEY,
        RowKind.NULL_TIME,
        RowKind.SECONDS_FOR_MILLISECONDS,
        RowKind.FUTURE,
    }
)
"""The kinds of rows that a log can show. It has no event id and no timeout, and its years have four digits."""

# strftime would follow the locale of the machine, a log never does
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_AGENTS = {
    "desktop": "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "mobile": "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1",
    "tablet": "Mozilla/5.0 (iPad; CPU OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1",
}
_REDIRECTED = frozenset({LOGOUT, PURCHASE})
_NO_SUCH_TIME = "32/Foo/2026:25:61:61 +0000"
_START_OF_REQUEST = b'] "'
_NOT_UTF8 = b"\xc3\x28\xff"


def write_access_log_line(event: ClickEvent, kind: RowKind, rng: Random) -> bytes:
    """Return ``event`` as one line of the log without a line end, with the fault of form of ``kind``."""
    line = _line(event, _user(event, kind), _time(event, kind)).encode()
    if kind is RowKind.TRUNCATED:
        return line[: rng.randrange(1, line.index(_START_OF_REQUEST))]
    if kind is RowKind.INVALID_UTF8:
        return line.replace(b"Mozilla", _NOT_UTF8, 1)
    return line


def _line(event: ClickEvent, user: str, time: str) -> str:
    redirected = event.type in _REDIRECTED
    request = f"{'POST' if redirected else 'GET'} {quote(event.page, safe='/?=+')} HTTP/1.1"
    size = 500 + crc32(event.event_id.encode()) % 50_000
    referer = f"https://{event.client}.example/"
    return (
        f'{_host(event.user_id)} - {user} [{time}] "{request}" {302 if redirected else 200} {size} '
        f'"{referer}" "{_AGENTS[event.device]}"'
    )


def _user(event: ClickEvent, kind: RowKind) -> str:
    return "-" if kind is RowKind.NULL_KEY else event.user_id


def _time(event: ClickEvent, kind: RowKind) -> str:
    if kind is RowKind.NULL_TIME:
        return "-"
    if kind is RowKind.WRONG_TYPE:
        return _NO_SUCH_TIME
    at = datetime.fromtimestamp(event.ts // 1000, UTC)
    return f"{at.day:02d}/{_MONTHS[at.month - 1]}/{at.year}:{at:%H:%M:%S} +0000"


def _host(user_id: str) -> str:
    """Return an address of the private block 10/8, the same for the same user."""
    number = crc32(user_id.encode())
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
