"""Every file of a stream's control directory, by what it is for. What it holds is told in ``control/records``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.home.names import TEMPORARY_SUFFIX, checked_identifier

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.control_root import ControlPath

PATTERNS_OF_DRIVERS: Final = ("exit.*.json", "stop.*", "submit.*")
"""Files of one driver each, by its uid."""


@dataclass(frozen=True, slots=True)
class ControlFiles:
    """The files below ``root``: a few KB that Airflow and the drivers both see.

    Whoever keeps them must be able to create a file unless it exists, and to replace one whole.
    """

    root: ControlPath

    @property
    def desired(self) -> ControlPath:
        """What people want."""
        return self.root / "desired.json"

    @property
    def lineage(self) -> ControlPath:
        """Which lineage is the active one."""
        return self.root / "lineage.json"

    @property
    def leases(self) -> ControlPath:
        """One file per fencing token; the highest is the lease."""
        return self.root / "leases"

    def lease(self, token: int) -> ControlPath:
        """Whose the ``token`` is."""
        return self.leases / f"{token:08d}.json"

    @property
    def lease_for_people(self) -> ControlPath:
        """A copy of the lease, for people to read."""
        return self.root / "lease.json"

    @property
    def heartbeat(self) -> ControlPath:
        """What the driver last said."""
        return self.root / "heartbeat.json"

    @property
    def launch(self) -> ControlPath:
        """The newest launch."""
        return self.root / "launch.json"

    @property
    def supervision(self) -> ControlPath:
        """What Airflow makes of the last failures."""
        return self.root / "supervision.json"

    @property
    def health(self) -> ControlPath:
        """Whether the stream is of use to its readers."""
        return self.root / "health.json"

    @property
    def watch(self) -> ControlPath:
        """Which try of which run of Airflow watches."""
        return self.root / "watch.json"

    def told(self, of: str) -> ControlPath:
        """The driver or command that people have been told ``of``: an orphan, unwatched, or stuck."""
        return self.root / f"{of}.json"

    @property
    def operations(self) -> ControlPath:
        """What was done to the stream's state: a file for each verb that somebody approved."""
        return self.root / "operations"

    def operation(self, operation: str) -> ControlPath:
        """What became of the operation of that id."""
        return self.operations / f"{checked_identifier('operation', operation)}.json"

    def left_out(self, operation: str) -> ControlPath:
        """What the operation of that id leaves out of the source."""
        return self.root / "left_out" / f"{checked_identifier('operation', operation)}.json"

    @property
    def plans(self) -> ControlPath:
        """What was asked for and waits for approval, or has been answered: a file for each request."""
        return self.root / "plans"

    def plan(self, request: str) -> ControlPath:
        """The plan of that request."""
        return self.plans / f"{checked_identifier('request', request)}.json"

    def exit(self, uid: str) -> ControlPath:
        """How driver ``uid`` ended."""
        return self.root / f"exit.{checked_identifier('uid', uid)}.json"

    def stop(self, uid: str) -> ControlPath:
        """There once driver ``uid`` has been asked to stop."""
        return self.root / f"stop.{checked_identifier('uid', uid)}"


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Files that mean something only on the machine that made them: in the home (``root``), wherever control is."""

    root: Path

    def submission(self, uid: str) -> Path:
        """The exit code of the process that submits driver ``uid`` to a cluster."""
        return self.root / f"submit.{checked_identifier('uid', uid)}"

    def reserve(self, uid: str) -> Path:
        """A little room on the disk that driver ``uid`` keeps back for its last words."""
        return self.root / f".reserve.{checked_identifier('uid', uid)}{TEMPORARY_SUFFIX}"
