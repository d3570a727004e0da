"""Orphans are reported again and again, told once, and never touched."""

import pytest

from sessionizer.control.records.process_records import stop_requested
from sessionizer.home.names import name_process
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.errors import StreamFindings
from sessionizer_airflow.reports import report_orphans
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform


def test_orphan_is_reported_until_it_is_gone(
    platform: Platform, said: list[str], alerts: list[Alert], reviewed: Reviewed
) -> None:
    platform.add("clicks")
    _, home = platform.drive("clicks", lineage="old", batch_id=4)
    report_orphans(platform.home, platform.streams, said.append, alerts.append)
    reviewed(said.pop())
    (platform.streams / "clicks.yaml").unlink()
    for _ in range(2):
        with pytest.raises(StreamFindings, match="driver driver-1") as caught:
            report_orphans(platform.home, platform.streams, said.append, alerts.append)
        assert "`sessionizer stop clicks`" in caught.value.remedy
    assert len(said) == 2
    (alert,) = alerts
    assert (alert.kind, alert.stream, alert.lineage, alert.batch_id) == (AlertKind.ORPHANED, "clicks", "old", 4)
    assert "`sessionizer stop clicks`" in alert.what_to_do
    assert not stop_requested(home, "driver-1")
    platform.add("clicks")
    report_orphans(platform.home, platform.streams, said.append, alerts.append)
    (platform.streams / "clicks.yaml").unlink()
    with pytest.raises(StreamFindings):
        report_orphans(platform.home, platform.streams, said.append, alerts.append)
    assert len(alerts) == 2, "it is news again"


@pytest.mark.parametrize("uid", ["driver-1", "restore-20261125T200000-abc123"])
def test_what_runs_without_a_spec_is_called_by_its_kind(
    platform: Platform, said: list[str], alerts: list[Alert], uid: str
) -> None:
    platform.drive("clicks", uid)
    with pytest.raises(StreamFindings) as caught:
        report_orphans(platform.home, platform.streams, said.append, alerts.append)
    for told in (caught.value.lines[0], said[0], alerts[0].reason):
        assert told.startswith(f"{name_process(uid)} ")


def test_two_streams_one_of_them_renamed(platform: Platform, said: list[str], alerts: list[Alert]) -> None:
    for name in ("clicks", "visits"):
        platform.add(name)
        platform.drive(name)
    (platform.streams / "visits.yaml").rename(platform.streams / "visitors.yaml")
    with pytest.raises(StreamFindings) as caught:
        report_orphans(platform.home, platform.streams, said.append, alerts.append)
    assert [alert.stream for alert in alerts] == ["visits"]
    assert len(caught.value.lines) == 1


def test_spec_that_cannot_be_read_makes_no_orphan(platform: Platform, said: list[str], alerts: list[Alert]) -> None:
    platform.add("clicks", "name: [")
    platform.drive("clicks")
    report_orphans(platform.home, platform.streams, said.append, alerts.append)
    assert alerts == []
