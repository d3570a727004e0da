"""Defaults that every DAG of the platform shares."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from sessionizer.control.records.operation_record import IN_AIRFLOW
from sessionizer.errors import InvalidSpec
from sessionizer.home.names import Verb, dag_id
from sessionizer.stream_spec.document.names import Verbatim
from sessionizer_airflow.failed_task import PersonNeeded, say_what_to_do

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from sessionizer.stream_spec.document.stream import StreamSpec

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PLATFORM = "sessionizer"
OF_WINDOW = "window__"
"""Begin of the id of a run that ``sessionizer.maintenance`` started. Runs of a user's own DAG have other ids."""
OPERATE = f"{PLATFORM}.operate"
"""The DAG of one team. Other teams' have names of their own before the dot."""
UPGRADE = f"{PLATFORM}.upgrade"
APPROVERS = "SESSIONIZER_APPROVERS"
WORKER_LIMIT = timedelta(minutes=10)
"""Execution timeout of a task, unless the task sets its own."""


def dag_options(spec: StreamSpec, verb: Verb, documentation: str, *, run_limit: timedelta) -> dict[str, Any]:
    """Return the options of the DAG that does ``verb`` for a stream. ``run_limit`` ends a run that hangs."""
    return {
        **_options(spec.name, verb, documentation, run_limit),
        "dag_id": dag_id(spec.name, verb),
        "doc_md": _document(spec, documentation),
        "tags": ["sessionizer", f"stream:{spec.name}", str(verb)],
        "default_args": _task_defaults(spec.owner),
    }


def steering_dag_options(spec: StreamSpec, verb: Verb, documentation: str, *, run_limit: timedelta) -> dict[str, Any]:
    """Return ``dag_options`` for a DAG with which a user changes the desired state of a stream.

    The DAG is not paused on creation, because a request must take effect at once. Only manual runs are allowed, because
    a run that a schedule or a backfill starts is not a user's request.
    """
    return {
        **dag_options(spec, verb, documentation, run_limit=run_limit),
        "allowed_run_types": ["manual"],
        "is_paused_upon_creation": False,
    }


def platform_dag_options(
    verb: str, documentation: str, *, run_limit: timedelta, platform: str = PLATFORM
) -> dict[str, Any]:
    """Return options as ``dag_options`` does, for a DAG that does ``verb`` for all streams together.

    ``platform`` is the first part of its id.
    """
    return {
        **_options(platform, verb, documentation, run_limit),
        "doc_md": f"{documentation.strip()}\n",
        "tags": [PLATFORM, verb],
        "default_args": _task_defaults(PLATFORM),
    }


def _options(name: str, verb: str, documentation: str, run_limit: timedelta) -> dict[str, Any]:
    return {
        "dag_id": f"{name}.{verb}",
        "dag_display_name": f"{name}: {verb}",
        "description": documentation.strip().splitlines()[0],
        "start_date": EPOCH,
        "catchup": False,
        "max_active_runs": 1,
        "dagrun_timeout": run_limit,
    }


def _task_defaults(owner: str) -> dict[str, Any]:
    return {
        "owner": owner,
        "execution_timeout": WORKER_LIMIT,
        "on_failure_callback": say_what_to_do,
        "pre_execute": refuse_unknown_fields,
    }


def refuse_unknown_fields(context: Context) -> None:
    """Fail the task, without a retry, if the conf of its run has a field that its DAG does not have.

    Airflow checks the value of each declared field, and passes any other field on. A misspelt one would do nothing.
    """
    known = [*context["dag"].params]
    for name in sorted({*(context["dag_run"].conf or ())} - {*known}):
        close = get_close_matches(name, known, n=1)
        meant = f"Did you mean {close[0]!r}? " if close else ""
        allowed = f"The fields are {', '.join(sorted(known))}" if known else "The DAG has no fields"
        unknown = InvalidSpec(name, Verbatim("no field of this DAG"), f"Remove it. {meant}{allowed}")
        raise PersonNeeded(str(unknown), "run this DAG again, with its fields alone")


def find_requester(context: Context) -> str:
    """Return the user who started the run."""
    return f"{context['dag_run'].triggering_user_name or 'an unnamed user'}{IN_AIRFLOW}"


def _document(spec: StreamSpec, documentation: str) -> str:
    about = f"**Stream** `{spec.name}`, owned by {spec.owner}. {spec.description}".strip()
    return f"{documentation.strip()}\n\n{about}\n"


def read_approvers(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the users who alone may approve. None are named if every user with the right may."""
    named = (each.strip() for each in environment.get(APPROVERS, "").split(","))
    return tuple(each for each in named if each)
