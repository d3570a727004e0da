"""The demo's calls of Airflow's API, while its SQLite is locked now and then."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sessionizer_demo.local_airflow.api import MORE_ATTEMPTS, AirflowUnavailable, Api
from sessionizer_demo.local_airflow.installation import Installation


@dataclass
class LockedDatabase(Api):
    """An API of which the first ``failures`` writes fail."""

    failures: int = 0
    pools: list[str] = field(default_factory=list)

    def call(self, verb: str, path: str, body: object = None, *, authorized: bool = True) -> Any:
        del authorized
        if verb == "GET":
            return {"pools": [{"name": name} for name in self.pools]}
        if self.failures:
            self.failures -= 1
            raise AirflowUnavailable(verb, path, "500 Database error")
        if isinstance(body, dict) and "slots" in body:
            self.pools.append(body["name"])
        return None


NOWHERE = Installation(root=Path("nowhere"), port=1)
WRITES = (lambda it: it.ensure_pool("reports", slots=1), lambda it: it.set_paused("clicks", paused=True))


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionizer_demo.local_airflow.api.time.sleep", lambda _: None)


@pytest.mark.parametrize("write", WRITES, ids=["pool", "pause"])
def test_a_write_is_tried_again(write: Callable[[Api], None]) -> None:
    locked = LockedDatabase(installation=NOWHERE, failures=MORE_ATTEMPTS)
    write(locked)
    assert locked.failures == 0


@pytest.mark.parametrize("write", WRITES, ids=["pool", "pause"])
def test_the_last_failure_is_told(write: Callable[[Api], None]) -> None:
    with pytest.raises(AirflowUnavailable):
        write(LockedDatabase(installation=NOWHERE, failures=MORE_ATTEMPTS + 1))


def test_a_pool_that_is_there_stays() -> None:
    locked = LockedDatabase(installation=NOWHERE, failures=1, pools=["reports"])
    locked.ensure_pool("reports", slots=2)
    assert (locked.pools, locked.failures) == (["reports"], 1)
