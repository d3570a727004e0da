"""What a list of tasks shows of each stream."""

from __future__ import annotations

import logging

import pytest

from sessionizer.control.records.airflow_records import Ailment, Health
from sessionizer_airflow.supervision.decide import Adopt, Decision, GiveUp, Launch, StandBy, Wait
from sessionizer_airflow.supervision.tell import label_of, level_of


@pytest.mark.parametrize(
    ("decision", "label", "level"),
    [
        (Launch("no driver has run yet"), "starting", logging.INFO),
        (Adopt("a", "STARTING"), "starting", logging.INFO),
        (Adopt("a", "RUNNING"), "working", logging.INFO),
        (Adopt("a", "IDLE"), "working", logging.INFO),
        (Adopt("a", "STOPPING"), "stopping", logging.INFO),
        (Wait(1, "driver a vanished"), "backing off", logging.WARNING),
        (Wait(1, "driver a is leaving", orderly=True), "restarting", logging.INFO),
        (StandBy("desired state is STOPPED"), "standing by", logging.INFO),
        (GiveUp("no Java", "install it"), "gave up", logging.ERROR),
    ],
    ids=str,
)
def test_every_decision_has_a_label_and_a_level(decision: Decision, label: str, level: int) -> None:
    assert label_of(decision, None) == label
    assert level_of(decision) == level


def test_a_driver_that_works_too_slowly_is_seen() -> None:
    lagging = Health(worked_at=0, ailment=Ailment.LAGGING, since=0)
    assert label_of(Adopt("a", "RUNNING"), lagging) == "working, lagging"
