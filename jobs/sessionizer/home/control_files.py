"""Every file of a stream's control directory, by its purpose. ``control/records`` describes the contents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.home.names import TEMPORARY_SUFFIX, checked_identifier

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.control_root import ControlPath

PATTERNS_OF_DRIVERS: Final = ("exit.*.json", "stop.*", "submit.*")
"""Patterns of the files that each driver has for itself, by its uid."""


@dataclass(frozen=True, slots=True)
class ControlFiles:
    """The files below ``root``: a few KB that Airflow and the drivers both see.

    Their store must be able to create a file unless it exists, and to replace a file whole.
    """

    root: ControlPath

    @property
    def desired(self) -> ControlPath:
        """The desired state of the stream."""
        return self.root / "desired.json"

    @property
    def lineage(self) -> ControlPath:
        """The record of the active lineage."""
        return self.root / "lineage.json"

    @property
    def leases(self) -> ControlPath:
        """The folder with a file for each fencing token. The highest token is the lease."""
        return self.root / "leases"

    def lease(self, token: int) -> ControlPath:
        """Return the record of the owner of ``token``."""
        return self.leases / f"{token:08d}.json"

    @property
    def lease_for_people(self) -> ControlPath:
        """A copy of the lease, for people to read."""
        return self.root / "lease.json"

    @property
    def heartbeat(self) -> ControlPath:
        """The newest heartbeat of the driver."""
        return self.root / "heartbeat.json"

    @property
    def launch(self) -> ControlPath:
        """The newest launch."""
        return self.root / "launch.json"

    @property
    def supervision(self) -> ControlPath:
        """Airflow's count of the last failures."""
        return self.root / "supervision.json"

    @property
    def health(self) -> ControlPath:
        """The record that says whether readers can use the stream's tables."""
        return self.root / "health.json"

    @property
    def watch(self) -> ControlPath:
        """The record of the Airflow run, and its try, that watches the stream."""
        return self.root / "watch.json"

    def told(self, of: str) -> ControlPath:
        """Return the record of the newest driver or command that was notified ``of``: orphan, unwatched, or stuck."""
        return self.root / f"{of}.json"

    @property
    def operations(self) -> ControlPath:
        """The changes of the stream's state: a file for each approved operation."""
        return self.root / "operations"

    def operation(self, operation: str) -> ControlPath:
        """Return the record of the operation with that id."""
        return self.operations / f"{checked_identifier('operation', operation)}.json"

    def left_out(self, operation: str) -> ControlPath:
        """Return the record of the source's rows that the operation with that id excludes."""
        return self.root / "left_out" / f"{checked_identifier('operation', operation)}.json"

    @property
    def plans(self) -> ControlPath:
        """The plans that wait for approval or were answered: a file for each request."""
        return self.root / "plans"

    def plan(self, request: str) -> ControlPath:
        """Return the plan of that request."""
        return self.plans / f"{checked_identifier('request', request)}.json"

    @property
    def history(self) -> ControlPath:
        """The folder of the stream's history: a file for each hour and each mark."""
        return self.root / "history"

    def history_hour(self, hour: str) -> ControlPath:
        """Return the file with the samples of an hour, such as ``2026-11-26T01``."""
        return self.history / f"{checked_identifier('hour', hour)}.json"

    def history_mark(self, mark: str) -> ControlPath:
        """Return the file of a mark, such as ``1790382862000-3fa9c2``: epoch ms, and what tells it from others."""
        return self.history / f"mark.{checked_identifier('mark', mark)}.json"

    def exit(self, uid: str) -> ControlPath:
        """Return the exit record of driver ``uid``."""
        return self.root / f"exit.{checked_identifier('uid', uid)}.json"

    def stop(self, uid: str) -> ControlPath:
        """Return the stop marker of driver ``uid``, which exists after a request to stop it."""
        return self.root / f"stop.{checked_identifier('uid', uid)}"


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The files that concern only the machine that made them: in the home (``root``), wherever control is."""

    root: Path

    def submission(self, uid: str) -> Path:
        """Return the file with the exit code of the process that submits driver ``uid`` to a cluster."""
        return self.root / f"submit.{checked_identifier('uid', uid)}"

    def reserve(self, uid: str) -> Path:
        """Return the file by which driver ``uid`` reserves disk space for its exit record."""
        return self.root / f".reserve.{checked_identifier('uid', uid)}{TEMPORARY_SUFFIX}"
