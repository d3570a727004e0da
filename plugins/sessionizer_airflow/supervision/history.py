"""How the last starts went. It outlives runs of the DAG, else each of them would start with a full budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sessionizer.control.atomic_file import write_json
from sessionizer.control.json_record import JsonRecord, read_record

if TYPE_CHECKING:
    from sessionizer.control.stream_home import StreamHome
    from sessionizer_airflow.supervision.policy import SupervisionPolicy
    from sessionizer_airflow.supervision.situation import Driver

FILE = "supervision.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class History(JsonRecord):
    """`failures` in a row, the newest at `last_failure_ms` (epoch) of driver `charged_uid` for `last_failure`.

    `forgiven_uid` is a dead driver that a person has dealt with: how it ended says nothing any more.
    """

    failures: int = 0
    last_failure_ms: int = 0
    last_failure: str = ""
    charged_uid: str | None = None
    forgiven_uid: str | None = None
    gave_up: bool = False

    def charge(self, driver: Driver, what: str, policy: SupervisionPolicy, now_ms: int) -> History:
        """Count the failure of `driver` once, however often it is seen; a long healthy life refills the budget."""
        if driver.uid == self.charged_uid:
            return self
        earlier = 0 if driver.lifetime >= policy.healthy_after else self.failures
        return replace(
            self,
            failures=earlier + 1,
            last_failure_ms=now_ms,
            last_failure=what,
            charged_uid=driver.uid,
        )

    def giving_up(self) -> History:
        """The same history, at the point where a person has to act."""
        return replace(self, gave_up=True)

    def forgive(self, driver: Driver | None) -> History:
        """A person has let the stream go on: the budget is full again, the dead driver's end is history."""
        return History(forgiven_uid=driver.uid if driver else None)


def read_history(home: StreamHome) -> History:
    """What is on record; an empty history when there is none, for a damaged file must not keep a stream down."""
    return read_record(History, home.control / FILE) or History()


def write_history(home: StreamHome, history: History) -> None:
    """:raises UnwritablePath: the control directory cannot be written."""
    write_json(home.control / FILE, history.to_json())
