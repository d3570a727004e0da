"""Turns of the streams whose upgrades may begin: approved in a list, or in the maintenance windows of their specs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from sessionizer.control.records.operation_record import pending_operation, read_operations
from sessionizer.control.records.supervision_records import (
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
)
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import DAY, moment_of, moment_text
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.canary_record import examine_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer.state.commands.restores import Rollback
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.document.upgrades import UpgradePolicy

OF_WINDOW: Final = "window__"
"""Begin of the id of a run that a maintenance window began. Runs of a user's own DAG have other ids."""
OF_LIST: Final = "list__"
"""The same, of a run whose plan a user approved in a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Member):
    """Member with the id of Airflow's ``run``, which may begin or was begun last. It begins ``until`` then (epoch ms).

    ``begins``: the opening in which it may begin, None if it was begun.
    """

    until: int
    run: str
    begins: Opening | None = None


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

    ``state_of`` returns Airflow's state of the run of an id, None if there is none. A run that is not over keeps its
    turn, whatever was edited, approved or closed since. An upgrade that is done holds the next wave back until its
    stream works. Raises DamagedFile, ControlUnreachable.
    """
    turn = partial(Turn, stream=home.name, wave=spec.upgrades.wave)
    begins = decide_upgrade(now, spec.upgrades, waiting) if waiting is not None and is_ready(home, waiting) else None
    run = None if waiting is None or begins is None else run_of(home.name, waiting, begins)
    begun = [each for each in (run, RUN_OF_WINDOW.newest(home)) if each is not None and now < _end_of(each) + DAY]
    asks = spec.upgrades.policy is not UpgradePolicy.APPLY
    if asks and begins is not None and begins.of_list:
        # a run of the window may wait for the answer that a user has given by the list
        begun = [each for each in begun if each.startswith(OF_LIST)]
    states = {each: state for each in dict.fromkeys(begun) if (state := state_of(each)) is not None}
    under_way = next((each for each, state in states.items() if state in {"queued", "running"}), None)
    if under_way is None and begins is not None and run is not None and run not in states:
        asks = begins.approver is None
        return turn(state=UpgradeState.WAITS, asks=asks, until=begins.until, run=run, begins=begins)
    own = under_way or next((each for each in states if now < _end_of(each)), None)
    if own is None:
        return None
    state = UpgradeState.RUNS
    if under_way is None:
        has_failed = states[own] == "failed"
        state = UpgradeState.FAILED if has_failed else state_after_run(home, now, still_waits=run is not None)
    return turn(state=state, asks=asks and own.startswith(OF_WINDOW), until=_end_of(own), run=own)


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
    until = moment_text(opening.until).removesuffix(" UTC").replace(" ", "T")
    return f"{begin}{stream}__{waiting.digest}__{until}"


def _end_of(run: str) -> int:
    """Return the end (epoch ms, whole seconds) of the opening in which the run of this id begins."""
    with suppress(InvalidSpec):
        return moment_of(run.rpartition("__")[2], "run")
    return sys.maxsize
