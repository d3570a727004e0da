"""User of a database that a job reads, taken from an Airflow connection only into the environment of the job.

Options of the job, and the Spark provider's environment variables, are visible. They are in the list of processes, in
the task's rendered fields and, on YARN and Kubernetes, in the settings of the job.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from sessionizer.state.seeds.seed_plan import PASSWORD, leads_to
from sessionizer_airflow.errors import UnusableDatabaseConnection
from sessionizer_airflow.launching.connection import SparkTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessionizer_airflow.operating.request import Request

HISTORY: Final = "--history"
AGAIN: Final = "clear the failed task"
ADD: Final = (
    "add connection {!r} with the login and the password of the database's user in Airflow, then clear the task"
)


@dataclass(frozen=True, slots=True)
class DatabaseUser:
    """User that reads the database at ``host``. The representation leaves out the password."""

    connection: str
    host: str
    port: int | None
    login: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, connection: str) -> DatabaseUser:
        """Read the user from the connection. Airflow then masks the password in the task's log.

        Raises UnusableDatabaseConnection.
        """
        try:
            found = Connection.get(connection)
        except AirflowNotFoundException as error:
            how = f"run this DAG again with the id of a connection that there is, or {ADD.format(connection)}"
            raise UnusableDatabaseConnection(connection, "Airflow has none of that id", how) from error
        missing = [name for name in ("login", "password") if not getattr(found, name)]
        if missing:
            how = f"give connection {connection!r} the login and the password of the database's user in Airflow"
            raise UnusableDatabaseConnection(
                connection, f"it has no {' and no '.join(missing)}", f"{how}, then {AGAIN}"
            )
        return cls(connection, found.host or "", found.port, found.login, found.password)

    def require_theirs(self, arguments: Sequence[str]) -> None:
        """Check that a job with these arguments gives the password to the connection's host only.

        A user who may fill in a form may not read what a connection keeps secret.

        Raises UnusableDatabaseConnection.
        """
        url = arguments[arguments.index(HISTORY) + 1]
        if not leads_to(url, self.host, self.port):
            place = f"{self.host}:{self.port}" if self.port else self.host
            allowed = (
                f"jdbc:…://{place}/NAME, the connection's host. For a URL with options, use a connection of type jdbc"
            )
            how = "run this DAG again with the history and the connection of one database"
            problem = f"history is {url!r}. Use {allowed}"
            raise UnusableDatabaseConnection(self.connection, problem, how)

    @contextmanager
    def export_password(self, spark: str) -> Iterator[None]:
        """Give the password to processes that this process starts inside the block.

        Raises UnusableDatabaseConnection if the connection ``spark`` runs the job elsewhere, because the environment
        does not get there.
        """
        if SparkTarget.of(spark).is_in_cluster:
            problem = f"connection {spark!r} is in cluster mode, and a password is given to a job of this machine only"
            how = f"set the deploy mode of connection {spark!r} to client, then {AGAIN}"
            raise UnusableDatabaseConnection(self.connection, problem, how)
        os.environ[PASSWORD] = self.password
        try:
            yield
        finally:
            del os.environ[PASSWORD]


def require_user(request: Request) -> None:
    """Refuse the form of a run before anything is started. Raises UnusableDatabaseConnection."""
    if request.connection is not None:
        DatabaseUser.of(request.connection).require_theirs(request.options)
