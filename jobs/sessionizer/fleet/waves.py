"""Turns of the streams whose upgrades may begin: approved in a list, or in the maintenance windows of their specs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sessionizer.control.records.operation_record import pending_operation, read_operations
from sessionizer.control.records.supervision_records import (
    APPROVED_UPGRADE,
    RUN_OF_WINDOW,
    SUPERVISION_FILE,
    DesiredState,
    read_desired,
)
from sessionizer.control.status.driver_status import read_driver
from sessionizer.deployment.waiting import (
    Member,
    Opening,
    UpgradeState,
    WaitingUpgrade,
    decide_upgrade,
    open_by_list,
    open_by_window,
)
from sessionizer.home.clock import moment_text
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import examine_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer.state.commands.restores import Rollback
from sessionizer.stream_spec.document.stream import StreamSpec

OF_WINDOW: Final = "window__"
"""Begin of the id of a run that a maintenance window began. Runs of a user's own DAG have other ids."""
OF_LIST: Final = "list__"
"""The same, of a run whose plan a user approved in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Member):
    """Member with the ``opening`` of its turn.

    ``begins``: the opening in which its ``run`` may begin, None if nothing begins. ``run``: id of Airflow's run, which
    may begin or was begun last.
    """

    opening: Opening
    begins: Opening | None = None
    run: str | None = None


def is_ready(home: StreamHome, waiting: WaitingUpgrade | None) -> bool:
    """Whether the upgrade may begin: no command, no stop of a user. Raises DamagedFile, ControlUnreachable."""
    if waiting is None or read_desired(home).state is not DesiredState.RUNNING:
        return False
    return pending_operation(home) is None


def find_turn(
    home: StreamHome,
    spec: StreamSpec,
    waiting: WaitingUpgrade | None,
    state_of: Callable[[str], str | None],
    now: int,
) -> Turn | None:
    """Return the turn of the stream at ``now`` (epoch ms). None if nothing begins and nothing has begun in it.

    ``state_of`` returns Airflow's state of the run of an id, None if there is none. An upgrade that is done holds the
    next wave back until its stream works. Raises DamagedFile, ControlUnreachable.
    """
    approval = APPROVED_UPGRADE.of(home).read() if waiting is None else waiting.approval
    opening = open_by_list(now, approval) or open_by_window(now, spec.upgrades)
    if opening is None:
        return None
    begins = decide_upgrade(now, spec.upgrades, waiting) if waiting is not None and is_ready(home, waiting) else None
    run = None if waiting is None or begins is None else run_of(home.name, waiting, begins)
    begun = RUN_OF_WINDOW.newest(home)
    if begun is not None and not begun.endswith(_end_of_id(opening.until)):
        begun = None  # that of an earlier window
    state = _state_of_turn(home, run, begun, state_of, now)
    if state is None:
        return None
    return Turn(
        stream=home.name,
        wave=spec.upgrades.wave,
        state=state,
        asks=opening.approver is None,
        opening=opening,
        begins=begins,
        run=run if state is UpgradeState.WAITS else begun,
    )


def _state_of_turn(
    home: StreamHome, run: str | None, begun: str | None, state_of: Callable[[str], str | None], now: int
) -> UpgradeState | None:
    """Return the state. ``run``: the one that may begin. Another one than that of before is a new edit, so it waits."""
    state = state_of(begun) if begun is not None else None
    if state in {"queued", "running"}:
        return UpgradeState.RUNS
    if state is None or (run is not None and run != begun):
        return None if run is None else UpgradeState.WAITS
    return UpgradeState.FAILED if state == "failed" else state_after_run(home, now, still_waits=run is not None)


def state_after_run(home: StreamHome, now: int, *, still_waits: bool) -> UpgradeState:
    """Return whether the stream works after its run. One that ``still_waits`` was rejected or rolled back.

    A canary counts only if the run began it: a change in place of a quiet stream would wait for an earlier one.
    """
    operations = read_operations(home)
    if still_waits:
        is_back = bool(operations) and operations[-1].verb == Rollback.name
        return UpgradeState.FAILED if is_back else UpgradeState.DONE
    canary, supervised = examine_canary(home), SUPERVISION_FILE.of(home).read()
    has_failed = canary is not None and canary.outcome is CanaryOutcome.FAILED
    if has_failed or (supervised is not None and supervised.given_up):
        return UpgradeState.FAILED
    if read_desired(home).state is not DesiredState.RUNNING:
        return UpgradeState.DONE
    begun_by_run = bool(operations) and operations[-1].lineage_from != operations[-1].lineage_to
    works = read_driver(home, now).works and (canary is None or canary.is_settled or not begun_by_run)
    return UpgradeState.DONE if works else UpgradeState.RUNS


def run_of(stream: str, waiting: WaitingUpgrade, opening: Opening) -> str:
    """Return the id of the run, which is the same for the same differences in the same opening."""
    begin = OF_LIST if opening.of_list else OF_WINDOW
    return f"{begin}{stream}__{waiting.digest}{_end_of_id(opening.until)}"


def _end_of_id(until_ms: int) -> str:
    """Return the end of the ids of all runs of a window, or of an approved list."""
    return f"__{moment_text(until_ms).removesuffix(' UTC').replace(' ', 'T')}"
