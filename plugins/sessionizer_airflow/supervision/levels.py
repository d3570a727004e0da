"""How loud each decision is said: pure. What a person looks for is found with the level filter of the task's log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from sessionizer_airflow.alerting.alert import Kind
from sessionizer_airflow.supervision.decisions import Decision, GiveUp, Replace, Wait

if TYPE_CHECKING:
    from sessionizer_airflow.alerting.alert import Alert


class Say(Protocol):
    """Takes one line; `level` is one of `logging`."""

    def __call__(self, line: str, level: int = logging.INFO) -> None:
        """Say it."""


def level_of(decision: Decision) -> int:
    """ERROR when a person has to act, WARNING for a driver that failed or hung and what is done about it, else INFO."""
    match decision:
        case GiveUp():
            return logging.ERROR
        case Replace():
            return logging.WARNING
        case Wait(orderly=orderly):
            return logging.INFO if orderly else logging.WARNING
        case _:
            return logging.INFO


def level_of_alert(alert: Alert) -> int:
    """INFO for good news."""
    return logging.INFO if alert.kind is Kind.RECOVERED else logging.WARNING
