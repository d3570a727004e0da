"""Which decisions people are told of: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer_airflow.alerting.alert import Alert, Kind
from sessionizer_airflow.supervision.decide import describe_end, mending
from sessionizer_airflow.supervision.decisions import Decision, GiveUp, Replace

if TYPE_CHECKING:
    from sessionizer_airflow.supervision.situation import Situation


def alert_on(decision: Decision, situation: Situation, stream: str, *, failed_now: bool) -> Alert | None:
    """One alert for each failure; `failed_now` tells whether this one was not known before."""
    driver = situation.driver
    if driver is None:
        return None
    match decision:
        case GiveUp(reason, remedy):
            kind, what_to_do = Kind.GAVE_UP, remedy
        case Replace(uid, why):
            kind, reason, what_to_do = Kind.REPLACED, f"driver {uid} is ended by force: {why}", ""
        case _ if failed_now and situation.wanted:
            kind, reason, what_to_do = Kind.REPLACED, describe_end(driver), mending(driver)
        case _:
            return None
    return Alert(
        stream=stream,
        kind=kind,
        reason=reason,
        what_to_do=what_to_do,
        lineage=driver.lineage,
        batch_id=driver.batch_id,
    )
