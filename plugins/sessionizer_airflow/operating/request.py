"""Request that the form of ``sessionizer.operate`` makes: pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import moment_of
from sessionizer.home.names import check_identifier, check_name
from sessionizer.home.roots import is_uri
from sessionizer.state.commands.command import Command, Option
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.state.commands.restores import Restore
from sessionizer.state.commands.seeds import ADDRESSES, DATABASE, NEED_QUERY, SOURCE, Seed, url_without_secret
from sessionizer.stream_spec.document.names import Verbatim

if TYPE_CHECKING:
    from airflow.sdk import Context


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
            check_identifier("savepoint", str(given["savepoint"]))
        command = COMMANDS[operation].parse_form(given) if operation in COMMANDS else None
        return cls(operation=operation, stream=stream, command=command, why=str(given.get("why", "")))


_DIGITS: Final = 6


def id_of_run(run_id: str, asked_at: datetime) -> str:
    """Return the id of the operation or the savepoint of a run: the same for every try of every task.

    Its time is that of the request. It ends with a hash, because an Airflow run id may contain any character.
    """
    return f"{asked_at.astimezone(UTC):%Y%m%dT%H%M%S}-{hashlib.sha256(run_id.encode()).hexdigest()[:_DIGITS]}"


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
    """Check the place of a history: an absolute path, a URI or an address, without a password. Raises InvalidSpec.

    A path must be absolute, because a job's working directory is not the user's. An address that needs a query is
    refused, because the form has no field for one.
    """
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
