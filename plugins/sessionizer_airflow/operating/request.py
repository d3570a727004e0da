"""Form of ``sessionizer.operate``, generated from the options of the commands, and the request that it makes.

The user of a database is taken from an Airflow connection only into the environment of the job. Options of the job, and
the Spark provider's environment variables, are visible: in the list of processes, in the task's rendered fields and, on
YARN and Kubernetes, in the settings of the job.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from airflow.sdk import Connection, Context, Param
from airflow.sdk.exceptions import AirflowNotFoundException

from sessionizer.control.history.files import Mark, read_marks
from sessionizer.errors import InvalidSpec, SessionizerError
from sessionizer.home.clock import epoch_ms, moment_of, moment_text
from sessionizer.home.names import check_identifier, check_name
from sessionizer.home.roots import is_uri
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.commands.command import Command, Option
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.commands.restores import Restore
from sessionizer.state.commands.seeds import (
    ADDRESSES,
    DATABASE,
    NEED_QUERY,
    PASSWORD,
    SOURCE,
    Seed,
    leads_to,
    url_without_secret,
)
from sessionizer.stream_spec.document.names import Verbatim
from sessionizer_airflow.errors import UnusableDatabaseConnection
from sessionizer_airflow.launching.spark_submit import SparkTarget

SAVEPOINT: Final = "savepoint"
PROMOTE: Final = "promote"
TEST_ALERT: Final = "test_alert"


def purposes() -> dict[str, str]:
    """Return the operations in order, each with its purpose in one line."""
    return {
        SAVEPOINT: "save what is open now",
        **{name: each.purpose for name, each in COMMANDS.items()},
        PROMOTE: "keep a lineage that is a canary",
        TEST_ALERT: "send a test message through the notifier",
    }


def form_fields() -> dict[str, tuple[Option, tuple[str, ...]]]:
    """Return the fields of the form in order, each with the commands that have it. Shared fields come last."""
    found: dict[str, tuple[Option, tuple[str, ...]]] = {}
    for command, declaration in COMMANDS.items():
        for name, option in declaration.options().items():
            if option.title is not None:
                _, others = found.get(name, (option, ()))
                found[name] = (option, (*others, command))
    return dict(sorted(found.items(), key=lambda each: len(each[1][1]) > 1))


@dataclass(frozen=True, kw_only=True)
class Request:
    """Request for ``operation`` on ``stream``, with its ``command`` if it is one on the state."""

    operation: str
    stream: str
    command: Command | None = None
    why: str = ""

    @property
    def connection(self) -> str | None:
        """Id of the Airflow connection with the user and the password of a database."""
        return self.command.connection if isinstance(self.command, Seed) else None

    @property
    def savepoint(self) -> str:
        """Id of the savepoint that a restore is asked to return to, empty for none."""
        return (self.command.savepoint or "") if isinstance(self.command, Restore) else ""

    @classmethod
    def parse_form(cls, form: Mapping[str, object]) -> Self:
        """Parse the form of a run. Raises InvalidSpec, with the field as the form calls it."""
        given = {name: value for name, value in form.items() if not (value is None or value is False or value == "")}
        operation, stream = str(given["verb"]), check_name("stream", str(given["stream"]))
        _require_fitting(operation, given)
        if "savepoint" in given:
            given["savepoint"] = check_identifier("savepoint", chosen_savepoint(given["savepoint"]))
        command = COMMANDS[operation].parse_form(given) if operation in COMMANDS else None
        return cls(operation=operation, stream=stream, command=command, why=str(given.get("why", "")))


_MARKS_READ: Final = 50
"""Number of a stream's newest marks that are read for the form. Each parse of the DAG file reads them."""
_CHOICES: Final = 10
"""Most savepoints of a stream in the form."""


def list_choices(homes: Iterable[StreamHome]) -> list[str]:
    """Return the newest savepoints for the form: the id, then words. None of a control store: each parse reads it."""
    found, now = list[str](), epoch_ms()
    for home in homes:
        marks = list[Mark]()
        if isinstance(home.control, Path):
            with suppress(OSError, SessionizerError):
                marks = [each for each in read_marks(home, 0, now, _MARKS_READ) if each.savepoint is not None]
        found += [
            f"{each.savepoint} {home.name}, {moment_text(each.at)}, batch {each.batch_id}, {each.what}"
            for each in reversed(marks[-_CHOICES:])
        ]
    return found


def chosen_savepoint(field: object) -> str:
    """Return the id in the form's field, which a choice follows by words about it."""
    return str(field).partition(" ")[0]


_DIGITS: Final = 6


def id_of_run(run_id: str, asked_at: datetime) -> str:
    """Return the id of the operation or savepoint of a run, the same for each try: a time and a hash."""
    return f"{asked_at.astimezone(UTC):%Y%m%dT%H%M%S}-{hashlib.sha256(run_id.encode()).hexdigest()[:_DIGITS]}"


def form_of_run(context: Mapping[str, Any] | Context) -> Mapping[str, Any]:
    """Return the form that the task works by: its own, or that of the run."""
    form: Mapping[str, Any] | None = getattr(context.get("task"), "form", None)
    return context["params"] if form is None else form


def operation_id(context: Mapping[str, Any] | Context) -> str:
    """Return the id of the operation that the run of ``context`` asks for."""
    return id_of_run(context["run_id"], context["dag_run"].run_after)


def _require_fitting(operation: str, given: Mapping[str, object]) -> None:
    declared = form_fields()
    for name, (option, _) in declared.items():
        if option.is_moment and name in given:
            moment_of(str(given[name]), name)
    for name, (_, verbs) in declared.items():
        if name in given and operation not in verbs:
            allowed = f"Leave it empty: it belongs to {', '.join(verbs)}, not to {operation}"
            raise InvalidSpec(name, Verbatim(str(given[name])), allowed)
    needed = () if given.get("accept_loss") or operation not in COMMANDS else COMMANDS[operation].needed
    missing = [name for name in needed if name not in given]
    if missing:
        raise InvalidSpec(missing[0], Verbatim("empty"), f"Fill it in: {declared[missing[0]][0].help}")
    if operation == Restore.name:
        _require_place_of_savepoint(given.get("savepoint"), given.get("time"), str(given.get("folder", "/")))
    if "history" in given:
        _require_place(str(given["history"]))
        _require_user(given)


def _require_place_of_savepoint(savepoint: object, time: object, folder: str) -> None:
    """Check that one savepoint is chosen, and its folder. Raises InvalidSpec."""
    if savepoint is None and time is None:
        empty = Verbatim("empty, and so is the time")
        raise InvalidSpec("savepoint", empty, "the id of a savepoint, or fill in a time")
    if savepoint is not None and time is not None:
        allowed = f"Leave it empty, because savepoint {savepoint} is given"
        raise InvalidSpec("time", Verbatim(str(time)), allowed)
    secret = urlsplit(folder).password if is_uri(folder) else None
    if secret is not None:
        raise InvalidSpec("folder", folder.replace(secret, "…"), "a URI without a password")
    if not (folder.startswith("/") or is_uri(folder)):
        raise InvalidSpec("folder", folder, "an absolute path, or a URI")


def _require_place(history: str) -> None:
    """Check the place of a history: absolute, without a password, of a kind without a query. Raises InvalidSpec."""
    if history.startswith(tuple(NEED_QUERY)):
        allowed = "Type `sessionizer seed`, because such a history needs a query, and the form has no field for one"
        raise InvalidSpec("history", history, allowed)
    shown = url_without_secret(history)
    if shown is not None:
        raise InvalidSpec("history", shown, "a URL without a password, because the connection holds it")
    if not (history == SOURCE or history.startswith(("/", *(ADDRESSES.keys() - NEED_QUERY))) or is_uri(history)):
        raise InvalidSpec("history", history, f"{SOURCE}, an absolute path, or a URI")


def _require_user(given: Mapping[str, object]) -> None:
    """Check that a connection and a table are given for a database, and for nothing else. Raises InvalidSpec."""
    for name in ("connection", "table"):
        if str(given["history"]).startswith(DATABASE) and name not in given:
            raise InvalidSpec(name, Verbatim("empty"), f"Fill it in: {Seed.options()[name].help}")
        if name in given and not str(given["history"]).startswith(DATABASE):
            raise InvalidSpec(
                name, Verbatim(str(given[name])), f"Leave it empty, because the history is no database ({DATABASE}…)"
            )


_LONGEST: Final = 1000


def form_of(streams: Sequence[str], only: str | None = None, savepoints: Sequence[str] = ()) -> dict[str, Param]:
    """Build the form: a required verb and stream, each verb's own fields in a section of its name, and shared fields.

    ``savepoints``: choices, see ``list_choices``. A user may also fill in the id of another one.
    ``only``: the one verb of the form. It is then not asked for, and Airflow hides a constant field.
    """
    said, fields = purposes(), form_fields()
    option, verbs = fields[SAVEPOINT]
    pattern = f"{(option.pattern or '').removesuffix('$')}( .*)?$"
    fields[SAVEPOINT] = (replace(option, pattern=pattern, examples=tuple(savepoints)), verbs)
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
            # a form of one verb shows all its fields at the top
            name: _param(option, verbs if only is None else ())
            for name, (option, verbs) in fields.items()
            if only in {None, *verbs}
        },
    }


SHARED: Final = "For several of them"


def _param(option: Option, verbs: Sequence[str]) -> Param:
    """Return the field. ``verbs``: those that have it, none if the form has one verb. A shared field names them."""
    said = f"{option.help[0].upper()}{option.help[1:]}.{' One per line.' if option.default == () else ''}"
    section = None if not verbs else f"To {verbs[0]}" if len(verbs) == 1 else SHARED
    said = f"{said} For {', '.join(verbs)}." if section == SHARED else said
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


@dataclass(frozen=True, slots=True)
class DatabaseUser:
    """User that reads the database at ``host``. The representation leaves out the password."""

    connection: str
    host: str
    port: int | None
    login: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, connection: str) -> Self:
        """Read the user from the connection, whose password Airflow masks then. Raises UnusableDatabaseConnection."""
        try:
            found = Connection.get(connection)
        except AirflowNotFoundException as error:
            add = f"add connection {connection!r} with the login and the password of the database's user in Airflow"
            how = f"run this DAG again with the id of a connection that there is, or {add}, then clear the task"
            raise UnusableDatabaseConnection(connection, "Airflow has none of that id", how) from error
        missing = [name for name in ("login", "password") if not getattr(found, name)]
        if missing:
            how = f"give connection {connection!r} the login and the password of the database's user in Airflow"
            raise UnusableDatabaseConnection(
                connection, f"it has no {' and no '.join(missing)}", f"{how}, then {AGAIN}"
            )
        return cls(connection, found.host or "", found.port, found.login, found.password)

    def require_theirs(self, url: str) -> None:
        """Raise UnusableDatabaseConnection unless ``url`` leads to the connection's host: the form may not leak it."""
        if not leads_to(url, self.host, self.port):
            place = f"{self.host}:{self.port}" if self.port else self.host
            allowed = f"jdbc:…://{place}/NAME, the connection's host"
            problem = f"history is {url!r}. Use {allowed}. For a URL with options, use a connection of type jdbc"
            how = "run this DAG again with the history and the connection of one database"
            raise UnusableDatabaseConnection(self.connection, problem, how)

    @contextmanager
    def export_password(self, spark: str) -> Iterator[None]:
        """Give the password to processes started in the block. Raises UnusableDatabaseConnection in cluster mode."""
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
