"""Places of the platform's files, for code that runs inside Airflow."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from airflow.sdk import Context

from sessionizer.control.records.operation_record import IN_AIRFLOW
from sessionizer.errors import InvalidSpec
from sessionizer.home.names import Verb, check_identifier, check_name, dag_id
from sessionizer.home.roots import (
    CONTROL_VARIABLE,
    DATA_VARIABLE,
    HOME_VARIABLE,
    control_root,
    data_root,
    home_at,
    is_uri,
    uri_of,
)
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import APPLICATION, PACKAGE, PackageArchive, jar_folder
from sessionizer.stream_spec.document.names import Verbatim
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer_airflow.errors import HomeMissing, PersonNeeded, say_what_to_do


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Folders of the platform, for a job. All are absolute, because a job's working directory is not ours.

    ``data``: the data root, a path or a URI, which only drivers open. ``control``: the control root, with the records.
    Either is None if it is the home.
    """

    home: Path
    streams: Path
    data: str | None = None
    control: str | None = None

    def __post_init__(self) -> None:
        for field in ("home", "streams"):
            path: Path = getattr(self, field)
            if not path.is_absolute():
                raise InvalidSpec(field, str(path), "an absolute path")
        for field in ("data", "control"):
            root: str | None = getattr(self, field)
            if root is not None and not (is_uri(root) or root.startswith("/")):
                raise InvalidSpec(field, root, "an absolute path, or a URI")

    def job_argv(self, stream: str, *verb: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the arguments of ``jobs/main.py``. They name the folders: a job in a cluster lacks our variables."""
        control = () if self.control is None else ("--control", self.control)
        return (*control, *verb, check_name("name", stream), *options, *self.argv())

    def savepoint_argv(self, stream: str, savepoint: str, *, why: str, native: bool = False) -> tuple[str, ...]:
        """Return the arguments that make the ``savepoint`` of the newest batch. ``why`` is kept for later readers."""
        options = ("--id", check_identifier("savepoint", savepoint), "--why", why, *(("--native",) if native else ()))
        return self.job_argv(stream, "savepoint", "create", options=options)

    def carry_out_argv(self, stream: str, operation: str, *, only_plan: bool = False) -> tuple[str, ...]:
        """Return the arguments that carry an approved operation out, or only make its plan."""
        options = (check_identifier("operation", operation), *(("--plan",) if only_plan else ()))
        return self.job_argv(stream, "carry-out", options=options)

    def argv(self) -> tuple[str, ...]:
        """Return the options that name the folders."""
        data = () if self.data is None else ("--data", self.data)
        return ("--home", str(self.home), "--streams", str(self.streams), *data)


@dataclass(frozen=True, kw_only=True)
class Project(Folders):
    """Places of the platform. ``application`` is the spark-submit target, ``jars`` its folder of jars."""

    application: Path
    jars: Path

    @property
    def archive(self) -> PackageArchive:
        """The package of the application, for clusters that copy it. A site's own application has it beside itself."""
        package = PACKAGE if self.application == APPLICATION else self.application.parent / PACKAGE.name
        return PackageArchive(package, self.home / "packages")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ, streams: Path | None = None) -> Self:
        """Read the places from the environment.

        ``SESSIONIZER_APPLICATION`` and ``_JARS`` replace places of the installed package. ``_HOME`` is required.

        ``streams``: the absolute folder of specs, which a DAG file gives. None: as ``SESSIONIZER_STREAMS`` says, else
        ``streams`` in Airflow's folder of DAGs.

        Raises InvalidSpec: the home is a URI, or ``SESSIONIZER_DATA`` is no data root, or relative, or
        ``SESSIONIZER_CONTROL`` no control root.
        Raises HomeMissing: the home is not set or relative. Airflow's processes run in folders of their own, so each
        would use another home, and a stream would run twice.
        """
        given = environment.get(HOME_VARIABLE, "")
        home = home_at(given)
        if not Path(given).expanduser().is_absolute():
            raise HomeMissing(HOME_VARIABLE)
        data = data_root(_given_root(DATA_VARIABLE, environment), home)
        given_control = _given_root(CONTROL_VARIABLE, environment)
        control = control_root(home, given_control) if given_control else home
        return cls(
            application=Path(environment.get("SESSIONIZER_APPLICATION", APPLICATION)).absolute(),
            streams=(streams or _streams(environment)).absolute(),
            jars=jar_folder(environment),
            home=home,
            data=None if data is None else uri_of(data),
            control=None if control == home else uri_of(control),
        )

    def home_of(self, stream: str) -> StreamHome:
        """Return the home of a stream. Raises InvalidSpec."""
        return StreamHome.of(self.home, stream, data_root(self.data, self.home))


def _streams(environment: Mapping[str, str]) -> Path:
    if given := environment.get("SESSIONIZER_STREAMS"):
        return Path(given)
    airflow = Path(environment.get("AIRFLOW_HOME") or "~/airflow")
    return Path(environment.get("AIRFLOW__CORE__DAGS_FOLDER") or airflow / "dags").expanduser() / "streams"


def _given_root(variable: str, environment: Mapping[str, str]) -> str | None:
    """Return the value of ``variable``. Airflow's processes run in folders of their own, so a path must be absolute."""
    given = environment.get(variable)
    if given and not is_uri(given) and not Path(given).expanduser().is_absolute():
        raise InvalidSpec(variable, given, "an absolute path, or a URI")
    return given


PLATFORM = "sessionizer"
OPERATE = f"{PLATFORM}.operate"
"""The DAG of one team. Other teams' have names of their own before the dot."""
UPGRADE = f"{PLATFORM}.upgrade"


def dag_options(spec: StreamSpec, verb: Verb, documentation: str, *, run_limit: timedelta) -> dict[str, Any]:
    """Return the options of the DAG that does ``verb`` for a stream. ``run_limit`` ends a run that hangs."""
    about = f"**Stream** `{spec.name}`, owned by {spec.owner}. {spec.description}".strip()
    return {
        **_options(spec.name, verb, documentation, run_limit, spec.owner),
        "dag_id": dag_id(spec.name, verb),
        "doc_md": f"{documentation.strip()}\n\n{about}\n",
        "tags": ["sessionizer", f"stream:{spec.name}", str(verb)],
    }


def platform_dag_options(
    verb: str, documentation: str, *, run_limit: timedelta, platform: str = PLATFORM
) -> dict[str, Any]:
    """Return options as ``dag_options`` does, for a DAG of all streams, with ids that begin with ``platform``."""
    return {
        **_options(platform, verb, documentation, run_limit, PLATFORM),
        "doc_md": f"{documentation.strip()}\n",
        # It only reads, or does what a spec or a user in need asks for.
        "is_paused_upon_creation": False,
        "tags": [PLATFORM, verb],
    }


def _options(name: str, verb: str, documentation: str, run_limit: timedelta, owner: str) -> dict[str, Any]:
    return {
        "dag_id": f"{name}.{verb}",
        "dag_display_name": f"{name}: {verb}",
        "description": documentation.strip().splitlines()[0],
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "catchup": False,
        "max_active_runs": 1,
        "dagrun_timeout": run_limit,
        "default_args": {
            "owner": owner,
            "execution_timeout": timedelta(minutes=10),  # unless the task sets its own
            "on_failure_callback": say_what_to_do,
            "pre_execute": refuse_unknown_fields,
        },
    }


def refuse_unknown_fields(context: Context) -> None:
    """Fail the task without a retry if the conf of its run has an unknown field, which Airflow does not check."""
    known = [*context["dag"].params]
    # Airflow's OpenLineage provider adds a field to the conf of a run that another DAG starts.
    for name in sorted({*(context["dag_run"].conf or ())} - {*known, "openlineage"}):
        close = get_close_matches(name, known, n=1)
        meant = f"Did you mean {close[0]!r}? " if close else ""
        allowed = f"The fields are {', '.join(sorted(known))}" if known else "The DAG has no fields"
        unknown = InvalidSpec(name, Verbatim("no field of this DAG"), f"Remove it. {meant}{allowed}")
        raise PersonNeeded(str(unknown), "run this DAG again, with its fields alone")


def find_requester(context: Context) -> str:
    """Return the user who started the run."""
    return f"{context['dag_run'].triggering_user_name or 'an unnamed user'}{IN_AIRFLOW}"


def read_approvers(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the users who alone may approve. None are named if every user with the right may."""
    named = (each.strip() for each in environment.get("SESSIONIZER_APPROVERS", "").split(","))
    return tuple(each for each in named if each)
