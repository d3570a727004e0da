"""What every DAG of the platform has in common."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessionizer.spec.stream import StreamSpec

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
WORKER_LIMIT = timedelta(minutes=10)
"""No task holds a worker for longer, unless it says why."""


def dag_options(spec: StreamSpec, verb: str, documentation: str, *, run_limit: timedelta) -> dict[str, Any]:
    """The options of the DAG that does `verb` for a stream; `run_limit` ends a run that hangs."""
    return {
        "dag_id": f"{spec.name}.{verb}",
        "dag_display_name": f"{spec.name}: {verb}",
        "description": documentation.strip().splitlines()[0],
        "doc_md": _document(spec, documentation),
        "tags": ["sessionizer", f"stream:{spec.name}", verb],
        "start_date": EPOCH,
        "catchup": False,
        "max_active_runs": 1,
        "dagrun_timeout": run_limit,
        "default_args": {"owner": spec.owner, "execution_timeout": WORKER_LIMIT},
    }


def _document(spec: StreamSpec, documentation: str) -> str:
    about = f"**Stream** `{spec.name}`, owned by {spec.owner}. {spec.description}".strip()
    return f"{documentation.strip()}\n\n{about}\n"
