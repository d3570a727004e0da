"""When it is news that sessions have landed."""

from __future__ import annotations

from sessionizer.control.heartbeat import Heartbeat, Phase
from sessionizer_airflow.landing import Announcement, landed


def beat(version: int | None, rows: int | None, uid: str = "one") -> Heartbeat:
    return Heartbeat(
        uid=uid, at=1, started_at=1, phase=Phase.RUNNING, watermark_ms=77, sessions_version=version, sessions_rows=rows
    )


def test_first_sessions() -> None:
    found = landed(beat(3, 10), None)
    assert found is not None
    assert found.payload == {"delta_version": 3, "rows": 10, "watermark_ms": 77}


def test_only_what_came_since() -> None:
    found = landed(beat(9, 25), Announcement(uid="one", version=3, rows=10))
    assert found is not None
    assert found.payload["rows"] == 15
    assert landed(beat(9, 25), found.announcement) is None


def test_new_driver_counts_from_nothing() -> None:
    found = landed(beat(10, 4, uid="two"), Announcement(uid="one", version=9, rows=25))
    assert found is not None
    assert found.payload["rows"] == 4


def test_no_news() -> None:
    last = Announcement(uid="one", version=3, rows=10)
    assert landed(None, None) is None
    assert landed(beat(None, None), None) is None
    assert landed(beat(0, 0), None) is None
    assert landed(beat(4, 10), last) is None, "an optimization of the table brings a version, but no rows"
