"""The actions that a stream takes now: one judgement for the page's buttons and for ``status``. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from sessionizer.control.records.desired_state import DesiredState
from sessionizer.fleet.health.facts import has_looked
from sessionizer.fleet.health.supervision_rules import has_given_up

if TYPE_CHECKING:
    from sessionizer.control.status.driver_status import DriverStatus
    from sessionizer.fleet.health.facts import HealthFacts


class Action(StrEnum):
    """Requests that a user may make of a stream."""

    START = "start"
    STOP = "stop"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    ROLLBACK = "rollback"
    PROMOTE = "promote"
    UPGRADE = "upgrade"


def find_actions(facts: HealthFacts) -> tuple[Action, ...]:
    """Return the actions that would not be refused at once, and that change something.

    A stream that a command has takes a stop, which follows the command. A stream that is drained takes only a way back
    to a state before.
    """
    seen, lineage = facts.seen, facts.lineage
    if seen is None:
        return ()
    is_free, has_run = facts.unfinished is None, lineage is not None
    is_steered = facts.problem is None and not facts.is_orphan and not facts.is_drained  # else it has no such DAG
    is_canary = facts.canary is not None and not facts.canary.is_settled
    takes = {
        Action.START: is_steered and is_free and _takes_start(facts, seen),
        Action.STOP: is_steered and _takes_stop(facts, seen),
        Action.SAVEPOINT: is_free and has_run and not facts.is_drained,
        Action.RESTORE: is_free and has_run,
        Action.ROLLBACK: is_free and lineage is not None and lineage.parent is not None,
        Action.PROMOTE: is_free and is_canary and not facts.is_drained,
        Action.UPGRADE: is_free and has_run and not facts.is_drained,
    }
    return tuple(action for action, is_taken in takes.items() if is_taken)


def _takes_start(facts: HealthFacts, seen: DriverStatus) -> bool:
    """Whether a start changes something: no supervisor follows the desired state by itself."""
    if seen.desired.state is DesiredState.STOPPED:
        return True
    if seen.state.is_live:
        return facts.paused and seen.launch is not None
    return facts.paused or has_given_up(facts, seen) or not has_looked(facts.looked_at, facts.now)


def _takes_stop(facts: HealthFacts, seen: DriverStatus) -> bool:
    """Whether a stop changes something: a driver runs, or is wanted by a user or a supervisor."""
    if seen.desired.state is DesiredState.STOPPED:
        return False
    return seen.state.is_live or bool(seen.desired.at) or facts.supervision is not None or seen.launch is not None
