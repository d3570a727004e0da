"""Task over many streams: its work is a function that logs, alerts, and returns what the next tasks need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from sessionizer_airflow.alerting.notification import notify
from sessionizer_airflow.errors import StreamFindings
from sessionizer_airflow.failed_task import PersonNeeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context

    from sessionizer_airflow.alerting.alert import Alert

    Say = Callable[[str], None]
    Tell = Callable[[Alert], None]


class StreamsTask(BaseOperator):
    """Task that looks at many streams. It fails, without a retry, if they have findings.

    ``look`` takes a function that logs a line, and one that sends an alert. The task returns its result.
    """

    ui_color = "#dfe6f3"

    def __init__(self, *, look: Callable[[Say, Tell], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.look = look

    def execute(self, context: Context) -> Any:  # noqa: ANN401, ARG002 - the interface
        """Look at the streams."""
        try:
            return self.look(self.log.info, lambda alert: notify(alert, self.log.warning))
        except StreamFindings as error:
            raise PersonNeeded.wrap(error) from None
