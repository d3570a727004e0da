"""The few calls of Airflow's REST API that the demo and the tests need."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sessionizer.errors import TransientError
from sessionizer_demo.local_airflow.installation import USER

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer_demo.local_airflow.installation import Installation

TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 1.0
MORE_ATTEMPTS = 3
HEALTH_OF = ("metadatabase", "scheduler", "triggerer", "dag_processor")


class AirflowUnavailable(TransientError):
    """The API server refused or did not answer ``verb`` ``path``: ``cause``."""

    message = "Airflow: {0.verb} {0.path}: {0.cause}"
    verb: str
    path: str
    cause: str


@dataclass
class Api:
    """A client of the API server of ``installation``, logged in as its only user."""

    installation: Installation
    _token: str | None = field(default=None, init=False)

    def is_healthy(self) -> bool:
        """Whether all four parts of Airflow (``HEALTH_OF``) are up."""
        try:
            health = self.call("GET", "/api/v2/monitor/health", authorized=False)
        except AirflowUnavailable:
            return False
        return all(health.get(part, {}).get("status") == "healthy" for part in HEALTH_OF)

    def unpause(self, dag_id: str) -> None:
        """Unpause the DAG. Raises AirflowUnavailable."""
        self.set_paused(dag_id, paused=False)

    def set_paused(self, dag_id: str, *, paused: bool) -> None:
        """Pause or unpause the DAG. Raises AirflowUnavailable."""
        path = f"/api/v2/dags/{dag_id}?update_mask=is_paused"
        _try_again(lambda: self.call("PATCH", path, {"is_paused": paused}))

    def ensure_pool(self, name: str, *, slots: int) -> None:
        """Create the pool if it does not exist. An existing pool keeps its slots. Raises AirflowUnavailable."""

        def create_missing() -> None:
            if name not in {pool["name"] for pool in self.call("GET", "/api/v2/pools?limit=1000")["pools"]}:
                self.call("POST", "/api/v2/pools", {"name": name, "slots": slots})

        _try_again(create_missing)

    def dag_ids(self) -> set[str]:
        """Return the ids of all DAGs that Airflow has parsed. Raises AirflowUnavailable."""
        found: set[str] = set()
        while True:  # Airflow gives at most 100 at a time, whatever is asked for
            page = self.call("GET", f"/api/v2/dags?order_by=dag_id&limit=100&offset={len(found)}")
            found |= {dag["dag_id"] for dag in page["dags"]}
            if not page["dags"] or len(found) >= page["total_entries"]:
                return found

    def import_errors(self) -> list[str]:
        """Return a text for each DAG file that could not be parsed. Raises AirflowUnavailable."""
        found = self.call("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace']}" for error in found]

    def call(self, verb: str, path: str, body: object = None, *, authorized: bool = True) -> Any:  # noqa: ANN401 - JSON
        """Call the API and return the decoded answer.

        Raises AirflowUnavailable if there is no answer, or the answer is an HTTP error.
        """
        request = urllib.request.Request(  # noqa: S310 - our own loopback address
            self.installation.address + path,
            method=verb,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **(self._authorization() if authorized else {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise AirflowUnavailable(verb, path, f"{error.code} {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise AirflowUnavailable(verb, path, str(error)) from error
        return json.loads(text) if text else None

    def token(self) -> str:
        """Return the access token, which a browser has in a cookie. Raises AirflowUnavailable."""
        if self._token is None:
            credentials = {"username": USER, "password": self.installation.password}
            self._token = str(self.call("POST", "/auth/token", credentials, authorized=False)["access_token"])
        return self._token

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token()}"}


def _try_again(write: Callable[[], object]) -> None:
    """Do the ``write``, and again if it failed: Airflow may give up waiting for its turn to write into SQLite."""
    for _ in range(MORE_ATTEMPTS):
        with suppress(AirflowUnavailable):
            write()
            return
        time.sleep(1)
    write()


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until ``condition`` holds. Raises AirflowUnavailable if it does not within ``seconds``.

    ``what`` names the condition in the error.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AirflowUnavailable("wait", what, f"not within {seconds:.0f} s")
        time.sleep(POLL_SECONDS)
