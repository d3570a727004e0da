"""What a list of tasks shows of each stream, where Airflow itself shows only that its task is deferred: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sessionizer.control.status.observation import State
from sessionizer_airflow.supervision.decisions import Adopt, Decision, GiveUp, StandBy, Wait

if TYPE_CHECKING:
    from sessionizer_airflow.supervision.health import Health

GAVE_UP: Final = "gave up"
OF_DRIVER: Final = {
    State.RUNNING: "working",
    State.IDLE: "working",
    State.STARTING: "starting",
    State.DRAINING: "stopping",
}


def label_of(decision: Decision, health: Health | None) -> str:
    """A word or two for what the stream is at; a stream that works may still be `stale` or `lagging`."""
    match decision:
        case Adopt(_, state):
            word = OF_DRIVER.get(State(state), state.lower())
            ailment = health.ailment if health else None
            return f"{word}, {ailment}" if ailment else word
        case Wait(orderly=orderly):
            return "restarting" if orderly else "backing off"
        case StandBy():
            return "standing by"
        case GiveUp():
            return GAVE_UP
        case _:
            return "starting"
