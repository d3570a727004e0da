"""The approval of a plan by a person: what is shown is what is carried out, or nothing is."""

from __future__ import annotations

import logging
import string
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseNotifier

from sessionizer.control.records.plan_record import PlanRecord, require_plan
from sessionizer.errors import TerminalError
from sessionizer.stream_spec.document.duration import format_duration
from sessionizer_airflow.alerting.alert import Alert, Kind
from sessionizer_airflow.alerting.notification import notify
from sessionizer_airflow.errors import PlanImpossible
from sessionizer_airflow.operating.request import Request
from sessionizer_airflow.operating.run_label import TEMPLATE, show_label
from sessionizer_airflow.operators.failed_task import PersonNeeded

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sessionizer_airflow.operating.settings import ApprovalSettings
    from sessionizer_airflow.project import Project

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Approved:
    """What was approved: the plan of that ``digest``, made at ``planned_at`` (epoch ms); ``by`` is who did.

    ``savepoint``: the one that it goes to, if any. ``options``: what else its command is given, as typed.
    """

    savepoint: str
    options: str
    digest: str
    by: str
    planned_at: int = 0
    """0 in what an earlier release has handed on."""


class ApprovePlan(ApprovalOperator):
    """Shows the plan of the run's request and waits, without a worker; returns what was approved.

    Fails closed: no answer within the patience of ``settings`` is a rejection, after which nothing else runs.

    Airflow keeps what an approval showed, and shows it again when the task is cleared. So does the request keep its
    plan: what is shown and what is approved cannot be two things.
    """

    def __init__(self, *, project: Project, settings: ApprovalSettings, **kwargs: Any) -> None:
        super().__init__(
            subject="A plan waits for approval",
            defaults=[self.REJECT],
            response_timeout=timedelta(milliseconds=settings.patience_ms),
            notifiers=[TellApprovers()],
            assigned_users=[{"id": user, "name": user} for user in settings.approvers] or None,
            map_index_template=TEMPLATE,
            **kwargs,
        )
        self.project = project
        self.settings = settings

    def execute(self, context: Context) -> None:
        """Show the plan, and park the task."""
        request, plan = self._asked(context)
        show_label(context, "waits for approval")
        if not plan.possible:
            raise PersonNeeded.by(PlanImpossible(plan.stream, plan.verb, plan.text))
        self.subject, self.body = subject_of(plan), body_of(plan, request.why, self.settings.patience_ms)
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any] | None:
        """The answer is there: skip what follows, or hand on what was approved."""
        answer = super().execute_complete(context, event)
        by = name_of(answer["responded_by_user"])
        self.log.info("%s by %s", ", ".join(answer["chosen_options"]), by)
        is_approved = answer["chosen_options"] == [self.APPROVE]
        show_label(context, "approved" if is_approved else "rejected")
        if not is_approved:
            return None
        _, plan = self._asked(context)
        return asdict(
            Approved(
                savepoint=plan.savepoint,
                options=plan.options,
                digest=plan.digest,
                planned_at=plan.made_at,
                by=f"{by} (Airflow)",
            )
        )

    def _asked(self, context: Context) -> tuple[Request, PlanRecord]:
        try:
            request = Request.of_run(context["run_id"], context["params"])
            return request, require_plan(self.project.home_of(request.stream), request.id)
        except TerminalError as error:
            raise PersonNeeded(str(error), "run this DAG again: a run has the plan that was made in it") from None


class TellApprovers(BaseNotifier):
    """Tells people, through the notifier of the installation, that they are waited for, and where."""

    def notify(self, context: Context) -> None:
        """Never raises."""
        task = context["task"]
        assert isinstance(task, ApprovePlan)  # noqa: S101  it is theirs
        request = Request.of_run(context["run_id"], context["params"])
        notify(approval_alert(request.stream, task.subject, link_to(task, context)), log.warning)


def link_to(task: ApprovePlan, context: Context) -> str | None:
    """Where the plan can be answered; None where Airflow has not been told its own address."""
    try:
        return task.generate_link_to_ui_from_context(context=context)
    except ValueError:
        return None


def approval_alert(stream: str, subject: str, link: str | None) -> Alert:
    """That somebody is waited for."""
    where = link or "Required Actions in Airflow"
    return Alert(
        stream=stream,
        kind=Kind.WANTS_APPROVAL,
        reason=subject.rstrip("?"),
        what_to_do=f"read the plan, then approve or reject it: {where}",
    )


def subject_of(plan: PlanRecord) -> str:
    """In one line."""
    return f"{plan.verb.capitalize()} {plan.stream}{f' to savepoint {plan.savepoint}' if plan.savepoint else ''}?"


def body_of(plan: PlanRecord, why: str, patience_ms: int) -> str:
    """The plan, line by line as it is, with nothing in it taken for markup; and what an answer, or none, does."""
    told, *lines = [*plan.text.splitlines(), *([f"why: {' '.join(why.split())}"] if why else [])]
    listed = "\n".join(f"- {_plain(line)}" for line in lines)
    return (
        f"**{_plain(told)}**\n\n{listed}\n\n"
        f"Digest `{plan.digest}`. **Approve** carries out this plan: the stream is stopped at its next batch boundary, "
        "and then runs again, unless it was stopped before. If by then the plan would be another one, nothing is done, "
        f"and the run says so. **Reject** does nothing; so does no answer within {format_duration(patience_ms)}.\n"
    )


def _plain(line: str) -> str:
    """Airflow's page shows Markdown; in a block of code it would run the lines into one."""
    return "".join(f"\\{each}" if each in string.punctuation else each for each in line.strip())


def name_of(user: Any) -> str:  # noqa: ANN401  what Airflow says of a user
    """Who answered; an answer that Airflow gave itself is nobody's."""
    if user is None:
        return "nobody: the time was up"
    name = user.get("name") if isinstance(user, dict) else getattr(user, "name", None)
    return str(name or "an unnamed user")
