"""An alert is a mark in the history of its stream, and carries the stream's word."""

import pytest

from sessionizer.control.history.files import MarkKind, read_marks
from sessionizer.home.clock import epoch_ms
from sessionizer_airflow.alerting import notification
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.alerting.notification import health_now, note_alert
from support.processes.fabricated_platform import Platform

ALERT = Alert(
    stream="clicks", kind=AlertKind.WAITING, reason="password=hunter2 is wrong", what_to_do="mend it", batch_id=7
)


@pytest.fixture
def _airflow(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONIZER_HOME", str(platform.home))
    monkeypatch.setenv("SESSIONIZER_STREAMS", str(platform.streams))


@pytest.mark.usefixtures("_airflow")
def test_it_is_a_mark_without_credentials(platform: Platform) -> None:
    home = platform.add("clicks")
    platform.drive("clicks", batch_id=7)
    noted = note_alert(ALERT)
    (mark,) = read_marks(home, 0, epoch_ms() + 1)
    assert (mark.kind, mark.what, mark.batch_id) == (MarkKind.ALERT, "waiting", 7)
    assert "hunter2" not in mark.text
    assert "mend it" in mark.text
    assert noted.context()["health"] == "healthy"


def test_a_fault_of_ours_in_judging_a_stream_ends_no_watch(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.add("clicks")
    assert health_now(platform.home, platform.streams, "clicks") is not None
    monkeypatch.setattr(notification, "find_view", lambda *_: None.health)  # type: ignore[attr-defined]
    assert health_now(platform.home, platform.streams, "clicks") is None


@pytest.mark.usefixtures("_airflow")
def test_its_word_is_that_of_status(platform: Platform) -> None:
    platform.add("clicks")
    assert note_alert(ALERT).health == "unknown", "no driver ever ran"
    assert health_now(platform.home, platform.streams, "nothing") is None


def test_without_a_home_the_alert_goes_out_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SESSIONIZER_HOME", raising=False)
    assert note_alert(ALERT) == ALERT
