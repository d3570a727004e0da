"""Defaults that every DAG of the platform shares."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sessionizer.home.names import Verb, dag_id
from sessionizer_airflow.failed_task import say_what_to_do

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.stream_spec.document.stream import StreamSpec

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PLATFORM = "sessionizer"
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
    return {"owner": owner, "execution_timeout": WORKER_LIMIT, "on_failure_callback": say_what_to_do}


def _document(spec: StreamSpec, documentation: str) -> str:
    about = f"**Stream** `{spec.name}`, owned by {spec.owner}. {spec.description}".strip()
    return f"{documentation.strip()}\n\n{about}\n"


def read_approvers(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the users who alone may approve. None are named if every user with the right may."""
    named = (each.strip() for each in environment.get(APPROVERS, "").split(","))
    return tuple(each for each in named if each)
