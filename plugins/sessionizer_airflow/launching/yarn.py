"""Drivers in YARN: found by a tag, because YARN assigns an application's id only at submission."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.causes.table import CAUSES
from sessionizer.control.records.process_records import SUBMITTED
from sessionizer.redaction import redact_and_cut
from sessionizer_airflow.launching.connection import DRIVER_VARIABLES, Manager
from sessionizer_airflow.launching.launcher import DriverObservation, cause_of_exit
from sessionizer_airflow.launching.resource_manager import fetch_log

if TYPE_CHECKING:
    from sessionizer_airflow.launching.resource_manager import ResourceManager

LIVE_STATES: Final = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"})
DIAGNOSTICS_LIMIT: Final = 300
"""Number of characters of YARN's diagnostics that a message shows."""
LOG_BYTES: Final = 16 * 1024
LOG_FILES: Final = ("stderr", "stdout")
EXIT_CODE: Final = re.compile(r"User application exited with status (\d+)")


@dataclass(frozen=True, kw_only=True)
class YarnApplication:
    """State of an application in YARN. ``diagnostics`` says why it waits or how it ended.

    ``log``: the address of its driver's log.
    """

    application: str
    state: str
    final_state: str
    diagnostics: str = ""
    log: str = ""

    @classmethod
    def of(cls, described: dict[str, Any]) -> YarnApplication:
        """Parse the ResourceManager's description of an application."""
        return cls(
            application=str(described["id"]),
            state=str(described["state"]),
            final_state=str(described.get("finalStatus", "")),
            diagnostics=" ".join(str(described.get("diagnostics") or "").split()),
            log=str(described.get("amContainerLogs") or ""),
        )

    @property
    def lives(self) -> bool:
        """Whether the application runs, or is going to."""
        return self.state in LIVE_STATES


@dataclass(frozen=True)
class YarnManager:
    """Implementation of ``ClusterManager`` for YARN. A submission is a tag: the driver's uid."""

    resource_manager: ResourceManager

    def submission(self, uid: str) -> str:
        """See ``ClusterManager``."""
        return uid

    def settings(self, submission: str) -> dict[str, str]:
        """Return the Spark settings of a submission. See ``ClusterManager``.

        Raises ResourceManagerUnknown: there is no ResourceManager to ask for the driver.
        """
        self.resource_manager.require_known()
        return {
            "spark.yarn.submit.waitAppCompletion": "false",
            "spark.yarn.tags": submission,
            "spark.yarn.maxAppAttempts": "1",
            f"{DRIVER_VARIABLES[Manager.YARN]}{SUBMITTED}": "1",
        }

    def look_for(self, submission: str) -> DriverObservation:
        """See ``ClusterManager``."""
        return combine_applications(self._applications(submission))

    def kill(self, submission: str) -> None:
        """See ``ClusterManager``."""
        for found in self._applications(submission):
            if found.lives:
                self.resource_manager.kill(found.application)

    def last_words(self, submission: str) -> list[str]:
        """Return the end of the driver's log, as long as its node has it or knows its place. See ``ClusterManager``."""
        for found in self._applications(submission):
            printed = [fetch_log(found.log, name, LOG_BYTES) for name in LOG_FILES]
            if any(printed):
                return [line for text in printed if text for line in text.splitlines()]
        return []

    def _applications(self, submission: str) -> list[YarnApplication]:
        return [YarnApplication.of(found) for found in self.resource_manager.applications(submission)]


def combine_applications(found: list[YarnApplication]) -> DriverObservation:
    """Combine the applications of one tag into one observation of the driver."""
    if not found:
        return DriverObservation(alive=False, said="YARN knows no application of it")
    told = ", ".join(f"{one.application} is {one.state}" + describe_application_end(one) for one in found)
    queued = any(one.lives for one in found) and not any(one.state == "RUNNING" for one in found)
    codes = [code for one in found for code in EXIT_CODE.findall(one.diagnostics)]
    cause = CAUSES["no_resources"] if queued else cause_of_exit(codes)
    return DriverObservation(alive=any(one.lives for one in found), said=f"YARN says that {told}", cause=cause)


def describe_application_end(found: YarnApplication) -> str:
    """Return in words how an application ended, if it did, and why it ended or waits, as far as YARN knows."""
    final = "" if found.lives or found.final_state == found.state else f" ({found.final_state})"
    why = "" if found.state == "RUNNING" else redact_and_cut(found.diagnostics, DIAGNOSTICS_LIMIT)
    return final + (f": {why}" if why else "")
