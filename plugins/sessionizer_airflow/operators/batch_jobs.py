"""Batch jobs as tasks: the Spark provider's own operator, called in one place."""

import os
import re
from collections.abc import Iterator
from typing import Any, Final

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from sessionizer.errors import TerminalError
from sessionizer.launch.scratch import scratch_environment
from sessionizer.redaction import redact
from sessionizer_airflow.errors import GO_ON, PersonNeeded
from sessionizer_airflow.launching.spark_submit import CONNECTION, PYTHONPATH, SparkJob, SparkTarget, store_variables
from sessionizer_airflow.project import Project

_EXIT_CODE: Final = re.compile(r"\. Error code is: (\d+)\.")
_ERROR: Final = re.compile(r"^error: (.+)$", re.MULTILINE)
_REMEDY: Final = re.compile(r"^remedy: (.+)$", re.MULTILINE)


def parse_failure(of_provider: str) -> tuple[PersonNeeded, bool] | None:
    """Parse the last error that the job printed from the provider's exception, and whether it rules out a retry.

    None if it printed none.
    """
    code, errors = _EXIT_CODE.search(of_provider), _ERROR.findall(of_provider)
    remedies = _REMEDY.findall(of_provider)
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
    """SparkSubmitOperator that adds our jars in the way that the connection's master needs.

    If the job said why it failed and what to do, the task says the same. Airflow retries it only if a retry may help.

    Raises SparkConnectionMissing: at execution, because the plain operator would fall back to YARN silently.
    """

    go_on = GO_ON
    """The user's next step after the cause is mended. Empty if the task says it itself."""

    def __init__(self, *, job: SparkJob, connection: str = CONNECTION, **kwargs: Any) -> None:
        super().__init__(
            application=str(job.application),
            application_args=list(job.arguments),
            name=job.name,
            conn_id=connection,
            **kwargs,
        )
        self.job = job
        self.connection = connection

    def execute(self, context: Context) -> None:
        """Submit the job and follow it."""
        try:
            target = self.fit_to_connection()
            # This process is the task's own (see `submitter_environment`).
            os.environ.update({**store_variables(target), **scratch_environment(os.environ)})
            if target.hands_on:
                self.job.archive.make()
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
        """Set the options that the connection's target needs, and return the target.

        Called at execution, not when the DAG is parsed, because it looks up the connection.
        """
        target = SparkTarget.of(self.connection)
        self.application = target.address(self.job.application)
        for option, value in target.options(self.job.jars, self.job.archive).items():
            setattr(self, option, value)
        return target


def job_of(project: Project, name: str, arguments: tuple[str, ...]) -> SparkJob:
    """Return the Spark job ``name`` that runs ``jobs/main.py`` with ``arguments``."""
    return SparkJob(
        name=name, application=project.application, arguments=arguments, jars=project.jars, archive=project.archive
    )


def batch_job(*, name: str, arguments: tuple[str, ...], project: Project, **kwargs: Any) -> SparkBatchJob:
    """Return the task that runs such a job."""
    return SparkBatchJob(job=job_of(project, name, arguments), **kwargs)
