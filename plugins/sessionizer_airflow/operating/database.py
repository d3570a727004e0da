"""The user of a database that a job reads: from a connection of Airflow to the environment of the job, by no other way.

Options of the job, and what the Spark provider takes for environment variables, are shown: in the list of processes, in
the task's rendered fields and, on YARN and Kubernetes, in the settings of the job.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from sessionizer.errors import InvalidSpec
from sessionizer.state.seeds.database import PASSWORD, leads_to
from sessionizer_airflow.launching.connection import SparkTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIELD, HISTORY = "connection", "--history"


@dataclass(frozen=True, slots=True)
class DatabaseUser:
    """Who reads the database at ``host``. The password is not part of what is shown of it."""

    host: str
    port: int | None
    login: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, connection: str) -> DatabaseUser:
        """As the connection has it; from here on Airflow masks the password in the task's log. Raises InvalidSpec."""
        allowed = "the id of a connection, in Airflow, with the login and the password of the database's user"
        try:
            found = Connection.get(connection)
        except AirflowNotFoundException as error:
            raise InvalidSpec(FIELD, connection, allowed) from error
        if not found.login or not found.password:
            raise InvalidSpec(FIELD, connection, allowed)
        return cls(found.host or "", found.port, found.login, found.password)

    def require_theirs(self, arguments: Sequence[str]) -> None:
        """Raises InvalidSpec where a job with these arguments reads elsewhere: whoever is there would get the password.

        Who may fill a form in may not read what a connection keeps secret.
        """
        url = arguments[arguments.index(HISTORY) + 1]
        if not leads_to(url, self.host, self.port):
            place = f"{self.host}:{self.port}" if self.port else self.host
            allowed = (
                f"jdbc:…://{place}/NAME, as the connection says; with options: a connection of type jdbc has them all"
            )
            raise InvalidSpec("history", url, allowed)

    @contextmanager
    def in_environment(self, spark: str) -> Iterator[None]:
        """In here processes that this one starts are given the password.

        Raises InvalidSpec where the connection ``spark`` has the job run elsewhere: the environment does not get there.
        """
        if SparkTarget.of(spark).in_cluster:
            allowed = f"nothing while {spark} is in cluster mode: a password is given to a job of this machine only"
            raise InvalidSpec(FIELD, self.login, allowed)
        os.environ[PASSWORD] = self.password
        try:
            yield
        finally:
            del os.environ[PASSWORD]
