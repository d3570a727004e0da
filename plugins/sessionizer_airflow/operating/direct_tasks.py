"""Tasks of ``sessionizer.operate`` that need neither a plan nor Spark: a promotion, and a test of the alerts."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from sessionizer.errors import SessionizerError, TerminalError
from sessionizer.lineage.canary.canary_record import promote_lineage
from sessionizer.redaction import redact
from sessionizer_airflow.alerting.alert import Alert, AlertKind
from sessionizer_airflow.alerting.notification import ARGUMENTS, CLASS, send_test
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.jobs import read_request
from sessionizer_airflow.operating.request import PROMOTE, TEST_ALERT
from sessionizer_airflow.operating.run_label import DONE, TEMPLATE, show_label
from sessionizer_airflow.project import find_requester

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sessionizer_airflow.operating.request import Request
    from sessionizer_airflow.project import Project


class DirectTask(BaseOperator):
    """Task that does what the form of its run asks for, in the worker itself. ``serves``: the operation of the form."""

    serves: ClassVar[str]

    def __init__(self, *, project: Project, **kwargs: Any) -> None:
        super().__init__(map_index_template=TEMPLATE, **kwargs)
        self.project = project

    def execute(self, context: Context) -> str:
        """Do it, and return the result in one line. Raises PersonNeeded."""
        request = read_request(context, [self.serves])
        show_label(context)
        try:
            told = self.act(request, find_requester(context))
        except TerminalError as error:
            show_label(context, "failed")
            raise PersonNeeded.wrap(error) from None
        self.log.info("%s", told)
        show_label(context, DONE)
        return told

    @abstractmethod
    def act(self, request: Request, user: str) -> str:
        """Do what ``user`` asked for, and return the result in one line."""


class PromoteLineage(DirectTask):
    """Task that keeps the stream's lineage, whatever its canary found or would find."""

    serves = PROMOTE

    def act(self, request: Request, user: str) -> str:
        """Promote the lineage. Raises OperationPending, DamagedFile."""
        return promote_lineage(self.project.home_of(request.stream), user)


class SendTestAlert(DirectTask):
    """Task that sends a test message through the notifier of this worker, and fails if that fails."""

    serves = TEST_ALERT

    def act(self, request: Request, user: str) -> str:
        """Send the message. Raises PersonNeeded if there is no notifier, or if it fails."""
        alert = Alert(stream=request.stream, kind=AlertKind.TEST, reason=f"a test message that {user} asked for")
        try:
            notifier = send_test(alert)
        except SessionizerError:
            raise
        except Exception as error:  # noqa: BLE001 - notifiers are other people's code
            reason = redact(f"the notifier failed: {type(error).__name__}: {error}")
            raise PersonNeeded(reason, f"correct {ARGUMENTS} and the connection, then run this DAG again") from None
        if notifier is None:
            remedy = f"set {CLASS} for Airflow's processes, restart them, and run this DAG again"
            raise PersonNeeded("no notifier is set", remedy)
        return f"sent by {notifier}: {alert.message}"
