"""Notifiers as users write them: real subclasses of Airflow's, which leave what they were told in a file."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier, Context

from sessionizer_airflow.alerting import notify
from sessionizer_airflow.errors import SupervisionEnded
from sessionizer_airflow.supervision.act import Supervisor


class FileNotifier(BaseNotifier):
    """Appends its text and the alert as one line of JSON."""

    template_fields = ("text",)

    def __init__(self, *, path: str, text: str = "{{ message }}") -> None:
        super().__init__()
        self.path, self.text = path, text

    def notify(self, context: Context) -> None:
        self._write(dict(context))

    def _write(self, context: dict[str, Any]) -> None:
        facts = {name: context.get(name) for name in ("stream", "kind", "lineage", "batch_id", "reason", "what_to_do")}
        with Path(self.path).open("a") as file:
            file.write(json.dumps({"text": self.text, **facts}) + "\n")


class AsyncFileNotifier(BaseNotifier):
    def __init__(self, *, path: str) -> None:
        super().__init__()
        self.path = path

    async def async_notify(self, context: Context) -> None:
        with Path(self.path).open("a") as file:  # noqa: ASYNC230 - a few bytes
            file.write(json.dumps({"kind": dict(context).get("kind")}) + "\n")


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def settle_and_tell(supervisor: Supervisor, said: Callable[[str], None]) -> None:
    """One look of the supervisor, whose news go to the notifier that is configured."""
    supervisor.ledger.policy = supervisor.policy
    supervisor.ledger.tell = lambda alert: notify(alert, said)
    try:
        supervisor.settle()
    except SupervisionEnded as error:
        said(str(error))


def settle_until(
    condition: Callable[[], object],
    build: Callable[[], Supervisor],
    said: Callable[[str], None],
    within_s: float = 240.0,
) -> None:
    """Let supervisors look, a new one each time as in Airflow, until `condition` holds."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, said
        settle_and_tell(build(), said)
        time.sleep(0.1)
