"""Each kind of row, as it looks on the wire."""

from __future__ import annotations

import json
import re
from datetime import datetime
from random import Random

import pytest

from sessionizer_demo.feed.rows.access_log import ACCESS_LOG_KINDS, write_access_log_line
from sessionizer_demo.feed.rows.click_rows import write_click
from sessionizer_demo.feed.rows.faults import spoil_event
from sessionizer_demo.feed.rows.kinds import RowKind
from sessionizer_demo.feed.traffic.events import ClickEvent

EVENT = ClickEvent(
    event_id="0af7",
    user_id="acme-000001",
    client="acme",
    ts=1_750_000_000_123,
    type="page_view",
    page="/search?q=käse",
    amount=0.0,
    device="mobile",
    timeout_s=None,
)
COMBINED = re.compile(
    rb'^(\S+) - (\S+) \[([^\]]*)\] "(\S+) (\S+) HTTP/1\.1" (\d{3}) (\d+) "https://(\w+)\.example/" "([^"]+)"$'
)
FORM_FAULTS = {RowKind.TRUNCATED, RowKind.INVALID_UTF8}


def click(kind: RowKind) -> bytes:
    rng = Random(1)
    return write_click(spoil_event(EVENT, kind, 30_000, rng), kind, rng)


def log_line(kind: RowKind) -> bytes:
    rng = Random(1)
    return write_access_log_line(spoil_event(EVENT, kind, 30_000, rng), kind, rng)


def test_a_click_has_exactly_the_columns_of_the_stream() -> None:
    assert json.loads(click(RowKind.NORMAL)) == {
        "event_id": "0af7",
        "user_id": "acme-000001",
        "client": "acme",
        "ts": 1_750_000_000_123,
        "type": "page_view",
        "page": "/search?q=käse",
        "amount": 0.0,
        "device": "mobile",
        "timeout_s": None,
    }


@pytest.mark.parametrize("kind", sorted(set(RowKind) - FORM_FAULTS))
def test_all_other_clicks_are_json_on_one_line(kind: RowKind) -> None:
    line = click(kind)
    assert b"\n" not in line
    assert set(json.loads(line)) == set(json.loads(click(RowKind.NORMAL)))


@pytest.mark.parametrize("seed", range(50))
def test_a_truncated_click_is_never_json(seed: int) -> None:
    line = write_click(EVENT, RowKind.TRUNCATED, Random(seed))
    assert line
    with pytest.raises(ValueError, match=r"Expecting|Unterminated|Invalid|codec"):
        json.loads(line)


@pytest.mark.parametrize("write", [click, log_line])
def test_bad_utf8_is_bad(write: object) -> None:
    line = write(RowKind.INVALID_UTF8)  # type: ignore[operator]
    with pytest.raises(UnicodeDecodeError):
        line.decode()
    assert b"\n" not in line


@pytest.mark.parametrize(
    ("kind", "column"),
    [(RowKind.NULL_KEY, "user_id"), (RowKind.NULL_TIME, "ts"), (RowKind.NULL_EVENT_ID, "event_id")],
)
def test_only_the_one_column_is_null(kind: RowKind, column: str) -> None:
    assert json.loads(click(kind)) == json.loads(click(RowKind.NORMAL)) | {column: None}


def test_faults_of_value() -> None:
    assert json.loads(click(RowKind.SECONDS_FOR_MILLISECONDS))["ts"] == 1_750_000_000
    assert json.loads(click(RowKind.MILLISECONDS_FOR_SECONDS))["ts"] == 1_750_000_000_123_000
    assert json.loads(click(RowKind.NON_POSITIVE_TIMEOUT))["timeout_s"] <= 0
    ahead_days = (json.loads(click(RowKind.FUTURE))["ts"] - EVENT.ts) / 86_400_000
    assert 3_650 < ahead_days < 3_654


@pytest.mark.parametrize("seed", range(10))
def test_a_wrong_type_is_in_a_typed_column(seed: int) -> None:
    columns = json.loads(write_click(EVENT, RowKind.WRONG_TYPE, Random(seed)))
    typed = {"ts": int, "amount": float, "timeout_s": int | None}
    assert any(not isinstance(columns[name], kind) for name, kind in typed.items())


def test_a_log_line_is_in_the_combined_format() -> None:
    found = COMBINED.match(log_line(RowKind.NORMAL))
    assert found
    host, user, time, method, path, _status, _size, client, _agent = (part.decode() for part in found.groups())
    assert re.fullmatch(r"10\.\d+\.\d+\.\d+", host)
    assert (user, method, path, client) == ("acme-000001", "GET", "/search?q=k%C3%A4se", "acme")
    assert datetime.strptime(time, "%d/%b/%Y:%H:%M:%S %z").timestamp() == EVENT.ts // 1000


@pytest.mark.parametrize("kind", sorted(ACCESS_LOG_KINDS - FORM_FAULTS))
def test_all_other_log_lines_have_the_form_too(kind: RowKind) -> None:
    assert COMBINED.match(log_line(kind))


def test_log_faults() -> None:
    assert b" - - [" in log_line(RowKind.NULL_KEY)
    assert b" [-] " in log_line(RowKind.NULL_TIME)
    assert b"/Foo/" in log_line(RowKind.WRONG_TYPE)
    assert not COMBINED.match(log_line(RowKind.TRUNCATED))
