"""Erasures that a table of requests asks for: the streams that are due, and one approval for all their plans."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context, XComArg
from airflow.sdk.exceptions import AirflowSkipException

from sessionizer.control.records.operation_record import PLAN_FILE, OperationRecord, write_request
from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec, SessionizerError, TerminalError
from sessionizer.home.clock import HOUR, epoch_ms
from sessionizer.home.roots import is_uri
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.state.commands.erasures import REQUESTS, Erase, count_requests
from sessionizer.stream_spec.document.names import duration_from, format_duration
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.approval import SHOWN_PLAN, ApprovalSettings, ApprovalTask, approve_plan, list_plan
from sessionizer_airflow.operating.request import operation_id
from sessionizer_airflow.project import Project

DEFAULTS: Final = {"SESSIONIZER_ERASE_EVERY": "1 day"}


@dataclass(frozen=True, kw_only=True)
class ErasureSettings:
    """Settings of the erasures: the place of the table of requests, and the time between two looks at it (ms)."""

    requests: str
    every_ms: int

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self | None:
        """Read the settings, None without a table. Raises InvalidSpec."""
        place = environment.get(REQUESTS)
        if not place:
            return None
        if not (place.startswith("/") or is_uri(place)):
            raise InvalidSpec(REQUESTS, place, "an absolute path, or a URI")
        return cls(requests=place, every_ms=duration_from({**DEFAULTS, **environment}, "erase_every"))

    def patience(self, approval: ApprovalSettings) -> ApprovalSettings:
        """Return the settings of the approval, which waits until the next look is near."""
        return replace(approval, patience_ms=max(approval.patience_ms, self.every_ms - HOUR))


def forms_of_erasures(
    project: Project, streams: Sequence[str], settings: ErasureSettings, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return and say the form of each erasure that is asked of a stream which has run. Raises PersonNeeded."""
    try:
        asked = {name: payload for name in streams if (payload := _payload(project, name)) is not None}
        found = list(count_requests(settings.requests, asked, epoch_ms()))
    except TerminalError as error:
        raise PersonNeeded.wrap(error) from None
    forms = list[dict[str, Any]]()
    for stream, column, people in found:
        say(f"{stream}: {count_text(people, column)} to erase")
        forms.append({"verb": Erase.name, "stream": stream, "keys": settings.requests, "column": column})
    return forms


def _payload(project: Project, stream: str) -> Collection[str] | None:
    """Return the columns of the payload, None without a lineage. A damaged stream fails in its own job."""
    home = project.home_of(stream)
    try:
        lineage = active_lineage(home)
        kept = SPEC_FILE.of(home, lineage).require() if lineage else None
    except SessionizerError:
        return ()
    return None if lineage is None else tuple(kept.document["mapping"]["payload"]) if kept else ()


class ApproveErasures(ApprovalTask):
    """Task that shows the plans for ``forms`` in one list, and returns the forms that a user approved by one answer."""

    template_fields = (*ApprovalOperator.template_fields, "forms")

    forms: Sequence[Mapping[str, Any]]

    def __init__(self, *, forms: Sequence[Mapping[str, Any]] | XComArg, **kwargs: Any) -> None:
        super().__init__(subject="Erasures wait for approval", **kwargs)
        self.forms = forms  # type: ignore[assignment]  # Airflow puts the result in its place before it runs

    def execute(self, context: Context) -> None:
        """Show the plans, and park the task. Skip what follows if there are none."""
        plans = self._plans(context)
        if not plans:
            raise AirflowSkipException("no stream has a plan that can be carried out")
        for each in plans:  # if the task was cleared, the earlier answer no longer counts
            write_request(self.project.home_of(each.stream), each)
        context["ti"].xcom_push(SHOWN_PLAN, [each.digest for each in plans])
        left = sorted({str(each["stream"]) for each in self.forms} - {each.stream for each in plans})
        self.subject = f"Erase people from {count_text(len(plans), 'stream')}?"
        self.body = body_of_plans(plans, left, self.settings.patience_ms)
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> list[Mapping[str, Any]]:
        """Handle the answer: record the approval of each plan, or skip what follows."""
        by, task = self.read_answer(context, event), context["ti"]
        if by is None:
            return []
        shown = task.xcom_pull(task_ids=self.task_id, key=SHOWN_PLAN) or ()
        plans = [each for each in self._plans(context) if each.digest in shown]  # one may have come since then
        for each in plans:
            approve_plan(self.project, each, by)
        approved = {each.stream for each in plans}
        return [form for form in self.forms if form["stream"] in approved]

    def _plans(self, context: Context) -> list[OperationRecord]:
        """Return the plans that can be carried out. A stream whose job failed has none."""
        found = (
            PLAN_FILE.of(self.project.home_of(str(form["stream"])), operation_id(context)).require()
            for form in self.forms or ()  # none if the task that finds them failed
        )
        return [plan for plan in found if plan is not None and plan.possible]


def body_of_plans(plans: Sequence[OperationRecord], left: Sequence[str], patience_ms: int) -> str:
    """Format the plans, the streams that are ``left`` without one, and the effect of each answer or of none."""
    listed = "".join(list_plan(each, [f"digest {each.digest}"]) for each in plans)
    without = f"Without a plan, see the task `plan`: {', '.join(left)}.\n\n" if left else ""
    return (
        f"{listed}{without}**Approve** runs these plans. Each stream is stopped at its next batch boundary, and runs "
        "again afterwards. What they erase cannot be brought back. "
        f"**Reject**, or no answer in {format_duration(patience_ms)}, changes nothing, and the next run asks again.\n"
    )
