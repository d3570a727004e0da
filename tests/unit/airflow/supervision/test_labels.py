"""Level of the log line of each decision, and the label that a list of tasks shows of each stream."""

from __future__ import annotations

import logging

import pytest

from sessionizer.causes.cause import HUNG
from sessionizer.fleet.finding import Finding, HealthWord, Rule, weigh
from sessionizer.home.names import name_process
from sessionizer_airflow.supervision.decide import Action, Adopt, GiveUp, Launch, Replace, StandBy, Wait
from sessionizer_airflow.supervision.tell import describe, level_of


@pytest.mark.parametrize(
    ("decision", "level"),
    [
        (Launch("no driver has run yet"), logging.INFO),
        (Adopt("a", "STARTING"), logging.INFO),
        (Adopt("a", "RUNNING"), logging.INFO),
        (Adopt("a", "IDLE"), logging.INFO),
        (Adopt("a", "STOPPING"), logging.INFO),
        (Wait(1, "driver a vanished"), logging.WARNING),
        (Wait(1, "driver a is leaving", orderly=True), logging.INFO),
        (StandBy("desired state is STOPPED"), logging.INFO),
        (GiveUp("no Java", "install it"), logging.ERROR),
    ],
    ids=str,
)
def test_every_decision_has_a_level(decision: Action, level: int) -> None:
    assert level_of(decision) == level


@pytest.mark.parametrize("uid", ["3f2a91", "restore-20261125T200000-abc123"])
@pytest.mark.parametrize("out_of_sight", [False, True])
def test_a_command_is_not_called_a_driver(uid: str, *, out_of_sight: bool) -> None:
    decisions: list[Action] = [
        Adopt(uid, "RUNNING"),
        Replace(uid, "it hangs", HUNG, out_of_sight=out_of_sight),
        StandBy("desired state is STOPPED", stop=uid),
    ]
    assert all(name_process(uid) in describe(each, None, now_ms=0) for each in decisions)


@pytest.mark.parametrize(
    ("word", "rule", "calm", "label"),
    [
        (HealthWord.WARNING, Rule.BACKING_OFF, Rule.STOPPED, "warning: backing off"),
        (HealthWord.DEGRADED, Rule.ROWS_REFUSED, Rule.WORKING, "degraded: rows refused"),
        (HealthWord.HEALTHY, Rule.UPGRADE_WAITS, Rule.WORKING, "healthy: upgrade waits"),
        (None, Rule.WORKING, Rule.WORKING, "healthy"),
        (None, Rule.WORKING, Rule.IDLE, "healthy"),
        (None, Rule.WORKING, Rule.STOPPED, "healthy: stopped"),
    ],
)
def test_the_label_is_the_word_and_its_rule(word: HealthWord | None, rule: Rule, calm: Rule, label: str) -> None:
    finding = Finding(rule, word, "") if word else None
    assert weigh([finding], calm).label == label
