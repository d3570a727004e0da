"""The maintenance window in which a run that the schedule started may change a stream."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow.sdk.exceptions import AirflowSkipException

from sessionizer.errors import TerminalError
from sessionizer.home.clock import MINUTE, epoch_ms, moment_text
from sessionizer.state.commands.upgrade import Upgrade
from sessionizer.stream_spec.spec_folder import find_stream
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.project import OF_WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from airflow.sdk import Context

    from sessionizer.stream_spec.document.stream import UpgradePolicy

SCHEDULED: Final = "operator_triggered"
"""Type of a run that another DAG started. No user can give a run this type."""
NEXT: Final = "wait for the next window, which begins anew, or run this DAG with its form"


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """The window ``hours`` of a spec, which is open for ``left_ms`` (whole minutes), and its ``policy``.

    ``options``: those of the upgrade that the spec wants in it, as a plan keeps them.
    """

    hours: str
    policy: UpgradePolicy | None
    left_ms: int
    options: str = ""


def is_scheduled(context: Mapping[str, Any] | Context) -> bool:
    """Whether the schedule started the run, not a user or a DAG of theirs."""
    run = context["dag_run"]
    return run.run_type == SCHEDULED and str(context["run_id"]).startswith(OF_WINDOW)


def find_window(streams: Path, stream: str) -> OpenWindow | None:
    """Return the window that the spec of ``stream`` has open now. None if nothing may begin by itself.

    The spec is read anew, because an approval and a job may come hours after the run began.

    Raises PersonNeeded if the spec is broken or gone.
    """
    try:
        upgrades = find_stream(streams, stream).upgrades
    except TerminalError as error:
        raise PersonNeeded.wrap(error) from None
    now = epoch_ms()
    until = upgrades.open_until(now)
    if until is None or not upgrades.begins_something:
        return None
    options = shlex.join(Upgrade.make_for_window(upgrades).recorded())
    return OpenWindow(str(upgrades.window), upgrades.policy, max(1, (until - now) // MINUTE) * MINUTE, options)


def window_for_approval(context: Context, streams: Path, stream: str) -> OpenWindow | None:
    """Return the open window of a scheduled run, None for a user's run.

    Raises AirflowSkipException if the window is closed, because nobody was asked yet.
    """
    if not is_scheduled(context):
        return None
    window = find_window(streams, stream)
    if window is None:
        message = f"the maintenance window of stream {stream} is closed at {moment_text(epoch_ms())}: nothing is begun"
        raise AirflowSkipException(message)
    return window


def require_window(context: Context, streams: Path, stream: str) -> None:
    """Raise PersonNeeded if a scheduled run would begin after the window's end. A user's run may begin any time."""
    if is_scheduled(context) and find_window(streams, stream) is None:
        reason = f"the maintenance window of stream {stream} ended before the approved plan was begun"
        raise PersonNeeded(reason, NEXT)
