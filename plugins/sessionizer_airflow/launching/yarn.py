"""Drivers in YARN: found by a tag, for the application's id is not known before YARN has it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sessionizer.causes.table import CAUSES
from sessionizer_airflow.launching.cluster import answer_of
from sessionizer_airflow.launching.launcher import DriverObservation

APPLICATION = re.compile(r"application_\d+_\d+")
LIVE_STATES = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"})


@dataclass(frozen=True)
class YarnApplication:
    """One line of ``yarn application -list``."""

    application: str
    state: str
    final_state: str

    @property
    def lives(self) -> bool:
        """Whether it runs, or is going to."""
        return self.state in LIVE_STATES


class YarnManager:
    """See ``ClusterManager``. A submission is a tag: the driver's uid."""

    def submission(self, uid: str) -> str:
        """See ``ClusterManager``."""
        return uid

    def settings(self, submission: str) -> dict[str, str]:
        """See ``ClusterManager``."""
        return {
            "spark.yarn.submit.waitAppCompletion": "false",
            "spark.yarn.tags": submission,
            "spark.yarn.maxAppAttempts": "1",
        }

    def look_for(self, submission: str) -> DriverObservation:
        """See ``ClusterManager``."""
        return observation_of(applications(answer_of(list_command(submission))))

    def kill(self, submission: str) -> None:
        """See ``ClusterManager``."""
        for found in applications(answer_of(list_command(submission))):
            if found.lives:
                answer_of(kill_command(found.application))


def list_command(tag: str) -> list[str]:
    """Ended applications are listed too, to say how they ended."""
    return ["yarn", "application", "-list", "-appStates", "ALL", "-appTags", tag]


def kill_command(application: str) -> list[str]:
    """Only an id can be killed, no tag."""
    return ["yarn", "application", "-kill", application]


def applications(printed: str) -> list[YarnApplication]:
    """The table that ``yarn application -list`` prints, between log lines."""
    rows = [[cell.strip() for cell in line.split("\t")] for line in printed.splitlines()]
    return [
        YarnApplication(application=row[0], state=row[5], final_state=row[6])
        for row in rows
        if APPLICATION.fullmatch(row[0]) and len(row) > 6  # noqa: PLR2004 - columns of that table
    ]


def observation_of(found: list[YarnApplication]) -> DriverObservation:
    """What the applications of one tag come to."""
    if not found:
        return DriverObservation(alive=False, said="YARN knows no application of it")
    told = ", ".join(f"{one.application} is {one.state}" + ended_as(one) for one in found)
    queued = any(one.lives for one in found) and not any(one.state == "RUNNING" for one in found)
    cause = CAUSES["no_resources"] if queued else None
    return DriverObservation(alive=any(one.lives for one in found), said=f"YARN says that {told}", cause=cause)


def ended_as(found: YarnApplication) -> str:
    """How it ended, if it did."""
    return "" if found.lives or found.final_state == found.state else f" ({found.final_state})"
