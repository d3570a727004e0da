"""Waiting upgrades of all streams: told once, and begun in the maintenance windows of their specs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sessionizer.control.records.airflow_records import TOLD_OF_UPGRADE
from sessionizer.control.records.desired_state import DesiredState, read_desired
from sessionizer.control.records.operation_record import pending_operation
from sessionizer.deployment.waiting import decide_upgrade, find_waiting, what_follows
from sessionizer.home.clock import epoch_ms, moment_text
from sessionizer.state.commands.upgrade import Upgrade
from sessionizer.stream_spec.loading.folder import survey_streams
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.dag_defaults import OF_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.deployment.waiting import WaitingUpgrade
    from sessionizer.stream_spec.document.stream import StreamSpec
    from sessionizer_airflow.project import Project


def runs_to_begin(project: Project, say: Callable[[str], None], tell: Callable[[Alert], None]) -> list[dict[str, Any]]:
    """Return the runs that begin now. Alert users of each waiting upgrade once.

    A stream begins none while a command has it, which may be that upgrade, nor while a user has stopped it.
    """
    begun = []
    for name, spec in survey_streams(project.streams).specs.items():
        home, now = project.home_of(name), epoch_ms()
        waiting = find_waiting(home, spec)
        if waiting is None:
            TOLD_OF_UPGRADE.forget(home)
            continue
        if read_desired(home).state is not DesiredState.RUNNING or pending_operation(home) is not None:
            continue
        decision = decide_upgrade(now, spec.upgrades, waiting, TOLD_OF_UPGRADE.newest(home))
        follows = what_follows(waiting, spec.upgrades, now)
        say(f"{name}: {waiting.counted}: {follows}")
        if decision.tell and TOLD_OF_UPGRADE.is_news(home, waiting.digest):
            tell(Alert(stream=name, kind=AlertKind.UPGRADE_WAITS, reason=waiting.counts, what_to_do=follows))
        if decision.until is not None:
            begun.append(_run_of(spec, waiting, decision.until))
    return begun


def _run_of(spec: StreamSpec, waiting: WaitingUpgrade, until_ms: int) -> dict[str, Any]:
    """Return the run, whose id is the same for the same differences in the same window."""
    command, options = Upgrade.make_for_window(spec.upgrades), Upgrade.options()
    until = moment_text(until_ms).removesuffix(" UTC").replace(" ", "T")
    return {
        "trigger_run_id": f"{OF_WINDOW}{spec.name}__{waiting.digest}__{until}",
        "conf": {
            "verb": Upgrade.name,
            "stream": spec.name,
            "why": f"maintenance window {spec.upgrades.window}, policy {spec.upgrades.policy}",
            **{name: value for name, value in vars(command).items() if value != options[name].default},
        },
    }
