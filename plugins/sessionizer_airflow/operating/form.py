"""Form of ``sessionizer.operate``, generated from the options of the commands, and the user of a database in it.

The user is taken from an Airflow connection only into the environment of the job. Options of the job, and the Spark
provider's environment variables, are visible: in the list of processes, in the task's rendered fields and, on YARN and
Kubernetes, in the settings of the job.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from airflow.sdk import Connection, Param
from airflow.sdk.exceptions import AirflowNotFoundException

from sessionizer.state.commands.command import Option
from sessionizer.state.commands.seeds import PASSWORD, Seed, leads_to
from sessionizer_airflow.errors import UnusableDatabaseConnection
from sessionizer_airflow.launching.connection import SparkTarget
from sessionizer_airflow.operating.request import Request, form_fields, purposes

_LONGEST: Final = 1000


def form_of(streams: Sequence[str], only: str | None = None) -> dict[str, Param]:
    """Build the form: a required verb and stream, and each verb's own fields in a section of its name.

    ``only``: the one verb of the form. It is then not asked for, and Airflow hides a constant field.
    """
    said = purposes()
    return {
        "verb": Param(
            type="string",
            enum=[*said],
            values_display={verb: f"{verb}: {purpose}" for verb, purpose in said.items()},
            title="What to do",
        )
        if only is None
        else Param(only, type="string", const=only),
        "stream": Param(type="string", enum=list(streams) or ["no stream has a spec"], title="Stream"),
        "why": Param(
            None,
            type=["null", "string"],
            maxLength=500,
            title="Why",
            description="Optional. Users who may approve see it.",
        ),
        **{
            # a form of one verb shows its own fields at the top
            name: _param(option, option.section or (f"To {' or '.join(verbs)}" if only is None else None))
            for name, (option, verbs) in form_fields().items()
            if only in {None, *verbs}
        },
    }


def _param(option: Option, section: str | None) -> Param:
    said = f"{option.help[0].upper()}{option.help[1:]}.{' One per line.' if option.default == () else ''}"
    return Param(
        False if option.default is False else None,
        title=option.title,
        description=f"{said} In the time zone of this page." if option.is_moment else said,
        section=section,
        **schema_of(option),
    )


def schema_of(option: Option) -> dict[str, Any]:
    """Return the JSON schema of the option's value. A field that the user leaves empty is null, or false."""
    if option.default is False:
        return {"type": "boolean"}
    if option.is_moment:
        return {"type": ["null", "string"], "format": "date-time"}
    if option.min is not None:
        return {"type": ["null", "integer"], "minimum": option.min, **({"maximum": option.max} if option.max else {})}
    return {
        "type": ["null", "string"],
        "maxLength": _LONGEST,
        **({"pattern": option.pattern} if option.pattern else {}),
        **({"format": "multiline"} if option.default == () else {}),
        **({"examples": list(option.examples)} if option.examples else {}),
    }


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

    def require_theirs(self, url: str) -> None:
        """Check that the job of a seed with this history gives the password to the connection's host only.

        A user who may fill in a form may not read what a connection keeps secret.

        Raises UnusableDatabaseConnection.
        """
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
    command = request.command
    if isinstance(command, Seed) and command.connection is not None:
        DatabaseUser.of(command.connection).require_theirs(command.history)
