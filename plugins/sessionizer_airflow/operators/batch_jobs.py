"""Batch jobs as tasks: the Spark provider's own operator, called in one place."""

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from sessionizer.errors import TerminalError
from sessionizer.launch.scratch import scratch_environment
from sessionizer.redaction import redact
from sessionizer_airflow.errors import GO_ON, PersonNeeded
from sessionizer_airflow.launching.spark_submit import CONNECTION, PYTHONPATH, SparkTarget, store_variables
from sessionizer_airflow.project import Project


def parse_failure(of_provider: str) -> tuple[PersonNeeded, bool] | None:
    """Parse the last error that the job printed, if any, and whether it rules out a retry."""
    code = re.search(r"\. Error code is: (\d+)\.", of_provider)
    errors, remedies = (re.findall(rf"^{part}: (.+)$", of_provider, re.MULTILINE) for part in ("error", "remedy"))
    if code is None or not errors or not remedies:
        return None
    error = PersonNeeded(redact(errors[-1].strip()), remedies[-1].strip())
    return error, int(code[1]) in _TERMINAL_CODES


def _codes(kind: type[TerminalError]) -> Iterator[int]:
    yield kind.exit_code
    for narrower in kind.__subclasses__():
        yield from _codes(narrower)


_TERMINAL_CODES: Final = frozenset(_codes(TerminalError))


class SparkBatchJob(SparkSubmitOperator):
    """SparkSubmitOperator that runs ``jobs/main.py`` with ``arguments``, in the way that the connection's master needs.

    If the job said why it failed and what to do, the task says the same. Airflow retries it only if a retry may help.

    Raises SparkConnectionMissing: at execution, because the plain operator would fall back to YARN silently.
    """

    go_on = GO_ON
    """The user's next step after the cause is mended. Empty if the task says it itself."""

    def __init__(
        self, *, project: Project, arguments: Iterable[str] = (), connection: str = CONNECTION, **kwargs: Any
    ) -> None:
        application = str(project.application)
        super().__init__(application=application, application_args=list(arguments), conn_id=connection, **kwargs)
        self.project = project
        self.connection = connection

    def execute(self, context: Context) -> None:
        """Submit the job and follow it."""
        try:
            target = self.fit_to_connection()
            # This process is the task's own (see `submitter_environment`).
            os.environ.update({**store_variables(target), **scratch_environment(os.environ)})
            if target.hands_on:
                self.project.archive.make()
                os.environ.pop(PYTHONPATH, None)
        except TerminalError as error:
            raise PersonNeeded.wrap(error, self.go_on) from None
        try:
            super().execute(context)
        except AirflowException as error:
            failure = parse_failure(str(error))
            if failure is None:
                raise
            (printed, is_terminal), task = failure, context["ti"]
            if not (is_terminal or task.try_number > task.max_tries):
                raise
            raise printed from None

    def fit_to_connection(self) -> SparkTarget:
        """Set the options that the target of the connection needs. Looks it up, so it is called at execution."""
        target = SparkTarget.of(self.connection)
        self.application = target.address(self.project.application)
        for option, value in target.options(self.project.jars, self.project.archive).items():
            setattr(self, option, value)
        return target
