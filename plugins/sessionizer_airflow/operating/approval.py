"""Approval of a plan by a user: exactly the shown plan is carried out, or none."""

import logging
import os
import string
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Self

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseNotifier, Context, XComArg
from airflow.sdk.exceptions import AirflowSkipException

from sessionizer.control.records.operation_record import (
    IN_AIRFLOW,
    PLAN_FILE,
    OperationRecord,
    OperationStage,
    require_request,
    write_request,
)
from sessionizer.control.records.supervision_records import APPROVED_UPGRADE, ListApproval
from sessionizer.counts import count_text
from sessionizer.deployment.differences import Difference, describe_differences, describe_hindrance
from sessionizer.deployment.waiting import Pace, find_waiting
from sessionizer.errors import TerminalError
from sessionizer.home.clock import epoch_ms
from sessionizer.state.commands.registry import COMMANDS
from sessionizer.stream_spec.document.names import duration_from, format_duration
from sessionizer.stream_spec.spec_folder import survey_streams
from sessionizer_airflow.alerting import Alert, AlertKind, notify
from sessionizer_airflow.errors import PersonNeeded
from sessionizer_airflow.operating.request import Request, operation_id
from sessionizer_airflow.operating.results import TEMPLATE, show_label, window_for_approval
from sessionizer_airflow.project import Project, read_approvers

DEFAULTS: Final = {"SESSIONIZER_APPROVAL_PATIENCE": "4 hours"}


@dataclass(frozen=True, kw_only=True)
class ApprovalSettings:
    """Settings of the approval. A plan without an answer within ``patience_ms`` is rejected.

    ``approvers``: ids of users, as Airflow's auth manager has them. If there are none, every user who may act on the
    DAG may approve.
    """

    patience_ms: int
    approvers: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Read the settings, such as ``SESSIONIZER_APPROVERS="olga, tom"``. Raises InvalidSpec."""
        return cls(
            patience_ms=duration_from({**DEFAULTS, **environment}, "approval_patience"),
            approvers=read_approvers(environment),
        )


SHOWN_PLAN: Final = "plan"
"""XCom key of the plan that a user is asked about."""
log = logging.getLogger(__name__)


class ApprovalTask(ApprovalOperator):
    """Task that asks a user, waits without a worker, and tells users of it. No answer in time is a rejection."""

    def __init__(self, *, project: Project, settings: ApprovalSettings, **kwargs: Any) -> None:
        super().__init__(
            defaults=[self.REJECT],
            response_timeout=timedelta(milliseconds=settings.patience_ms),
            notifiers=[TellApprovers()],
            assigned_users=[{"id": user, "name": user} for user in settings.approvers] or None,
            # Airflow may lose an answer that comes at once. It then retries the task, which asks again.
            **{"retries": 3, "retry_delay": timedelta(seconds=10), **kwargs},
        )
        self.project = project
        self.settings = settings

    def read_answer(self, context: Context, event: dict[str, Any]) -> str | None:
        """Return the name of the user who approved. None for a rejection, which skips what follows."""
        answer = super().execute_complete(context, event)
        by = name_user(answer["responded_by_user"])
        self.log.info("%s by %s", ", ".join(answer["chosen_options"]), by)
        return by if answer["chosen_options"] == [self.APPROVE] else None


class ApprovePlan(ApprovalTask):
    """Task that shows the plan of the run's request, and records the approval.

    Airflow keeps the text that an approval showed, and shows it again when the task is cleared. The request keeps its
    plan as well, so that the shown and the approved plan are always the same. It returns the name of the user who
    approved.

    In a run of the schedule the patience ends with the maintenance window. The policy ``apply`` approves a plan with
    exactly the options of the spec, because such a plan is possible only if open sessions lack nothing. So does a user
    who approved the stream's differences in a list.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(subject="A plan waits for approval", map_index_template=TEMPLATE, **kwargs)

    def execute(self, context: Context) -> str | None:
        """Show the plan, and park the task, unless the policy of the open window approves it."""
        request, plan = self._asked(context)
        window = window_for_approval(context, self.project, request.stream)
        context["ti"].xcom_push(SHOWN_PLAN, plan_for_page(plan))
        show_label(context, "waits for approval" if plan.possible else "plan refused")
        if not plan.possible:
            again = "run this DAG again. If the plan changes nothing, you need not act"
            remedy = COMMANDS[plan.verb].when_impossible.format(again=again, stream=plan.stream)
            raise PersonNeeded(plan.text, remedy)
        if window is not None and window.opening.approver is not None and plan.request == window.request:
            self.log.info("approved by %s:\n%s", window.opening.approver, plan.text)
            show_label(context, "approved")
            return approve_plan(self.project, plan, window.opening.approver)
        # if the task was cleared, the earlier answer no longer counts
        write_request(self.project.home_of(request.stream), plan)
        patience_ms = min(self.settings.patience_ms, window.left_ms if window else self.settings.patience_ms)
        self.response_timeout = timedelta(milliseconds=patience_ms)
        asker = context["dag_run"].triggering_user_name
        self.subject, self.body = subject_of(plan), body_of(plan, request.why, patience_ms, asker)
        super().execute(context)
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> str | None:
        """Handle the answer: record the approval, or skip what follows."""
        by = self.read_answer(context, event)
        show_label(context, "rejected" if by is None else "approved")
        if by is None:
            return None
        _, plan = self._asked(context)
        asker = context["dag_run"].triggering_user_name
        asked = f", asked by {asker}" if asker and asker != by else ""
        return approve_plan(self.project, plan, f"{by}{asked}")

    def _asked(self, context: Context) -> tuple[Request, OperationRecord]:
        try:
            request = Request.parse_form(context["params"])
            return request, require_request(self.project.home_of(request.stream), operation_id(context), PLAN_FILE)
        except TerminalError as error:
            raise PersonNeeded(str(error), "run this DAG again, because a run keeps its first plan") from None


def approve_plan(project: Project, plan: OperationRecord, by: str) -> str:
    """Record that ``by`` approved the plan in Airflow, and return the name with that."""
    now, user = epoch_ms(), f"{by}{IN_AIRFLOW}"
    approved = replace(plan, step=OperationStage.APPROVED, by=user, begun_at=now, step_at=now)
    write_request(project.home_of(plan.stream), approved)
    return user


class ApproveUpgrades(ApprovalTask):
    """Task that shows the waiting upgrades of many streams in one list, and records one approval for all of them.

    ``listed``: the result of ``list_upgrades``. The approval holds for the patience of ``settings``, and for exactly
    the listed differences.
    """

    template_fields = (*ApprovalOperator.template_fields, "listed")

    listed: Sequence[Mapping[str, Any]]

    def __init__(self, *, listed: Sequence[Mapping[str, Any]] | XComArg, **kwargs: Any) -> None:
        super().__init__(subject="Upgrades wait for approval", **kwargs)
        self.listed = listed  # type: ignore[assignment]  # Airflow puts the result in its place before it runs

    def execute(self, context: Context) -> None:
        """Show the list, and park the task. Skip what follows if no upgrade of the list can be approved."""
        fitting = [each for each in self.listed if each["fits"]]
        if not fitting:
            raise AirflowSkipException("no upgrade waits that can be approved in a list")
        if context["ti"].try_number > 1:  # if the task was cleared, the earlier answer no longer counts
            for each in fitting:
                APPROVED_UPGRADE.of(self.project.home_of(each["stream"])).remove()
        self.subject = f"Upgrade {count_text(len(fitting), 'stream')}?"
        self.body = body_of_list(self.listed, self.settings.patience_ms)
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Handle the answer: record the approval of each stream, or skip what follows."""
        by = self.read_answer(context, event)
        if by is None:
            return
        until = epoch_ms() + self.settings.patience_ms
        for each in self.listed:
            if each["fits"]:
                approval = ListApproval(digest=each["digest"], by=by, until=until)
                APPROVED_UPGRADE.of(self.project.home_of(each["stream"])).write(approval)


def list_upgrades(project: Project, chosen: Collection[str], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """List the waiting upgrades of the ``chosen`` streams (none: all) by wave. ``fits``: no user must act before."""
    found: list[dict[str, Any]] = []
    for name, spec in survey_streams(project.streams).specs.items():
        if chosen and name not in chosen:
            continue
        waiting = find_waiting(project.home_of(name), spec)
        if waiting is None:
            say(f"{name}: no upgrade waits")
            continue
        say(f"{name}: {waiting.counted}")
        found.append({
            "stream": name,
            "wave": spec.upgrades.wave,
            "digest": waiting.digest,
            "fits": not waiting.needs_user,
            "counts": waiting.counts,
            "lines": [each.line for each in waiting.differences],
        })  # fmt: skip
    return sorted(found, key=lambda each: (each["wave"], each["stream"]))


def body_of_list(listed: Iterable[Mapping[str, Any]], patience_ms: int) -> str:
    """Format the list, and the effect of each answer or of none."""
    blocks, left = [], []
    for each in listed:
        stream = str(each["stream"])
        if each["fits"]:
            lines = "".join(f"    - {_plain(line)}\n" for line in each["lines"])
            blocks.append(f"- **{_plain(stream)}**, wave {each['wave']}, digest `{each['digest']}`\n{lines}")
        else:
            left.append(f"- {_plain(stream)}: {_plain(each['counts'])}. Run `sessionizer upgrade {stream}`")
    not_here = "Not in this list, because a user must accept or settle a difference:\n\n" + "\n".join(left) + "\n\n"
    patience, failures = format_duration(patience_ms), count_text(Pace.from_environment().stop_after, "failure")
    return (
        f"{''.join(blocks)}\n{not_here if left else ''}"
        f"**Approve** begins these upgrades wave by wave in the next {patience}. None begins after {failures}. A "
        "stream whose spec or release has changed by then asks anew. "
        f"**Reject**, or no answer in {patience}, changes nothing.\n"
    )


class TellApprovers(BaseNotifier):
    """Notifier that tells users, through the installation's notifier, that a plan waits for them, and where."""

    def notify(self, context: Context) -> None:
        """Send the alert. Never raises."""
        task = context["task"]
        assert isinstance(task, ApprovalTask)  # noqa: S101  it is theirs
        link = None
        with suppress(ValueError):  # Airflow may not know its own address
            link = task.generate_link_to_ui_from_context(context=context)
        what_to_do = f"read the plan, then approve or reject it: {link or 'Required Actions in Airflow'}"
        kind, reason = AlertKind.WANTS_APPROVAL, task.subject.rstrip("?")
        # a list is of many streams, so its question is the platform's
        stream = str(context["params"].get("stream") or task.dag_id.partition(".")[0])
        notify(Alert(stream=stream, kind=kind, reason=reason, what_to_do=what_to_do), log.warning)


def plan_for_page(plan: OperationRecord) -> dict[str, Any]:
    """Return the plan as the Streams page shows it: what Airflow's page says in lines, with the differences apart."""
    found, accepted = [Difference.from_json(each) for each in plan.differences], plan.request.get("accept") or []
    apart = {line.strip() for line in (*describe_differences(found), describe_hindrance(found, accepted) or "")}
    told, *lines = plan.text.splitlines()
    return {
        "digest": plan.digest,
        "possible": plan.possible,
        "title": told,
        "lines": [line.strip() for line in lines if line.strip() not in apart],
        "differences": [*plan.differences],
        "accepted": [*accepted],
    }


def subject_of(plan: OperationRecord) -> str:
    """Summarize the plan in one line."""
    return f"{plan.verb.capitalize()} {plan.stream}{f' to savepoint {plan.savepoint}' if plan.savepoint else ''}?"


def body_of(plan: OperationRecord, why: str, patience_ms: int, asker: str | None = None) -> str:
    """Format the plan, a line for each of its lines without markup, and the effect of each answer or of none."""
    more = [f"why: {' '.join(why.split())}"] if why else []
    more += [f"asked for by {asker}"] if asker else []
    return (
        f"{list_plan(plan, more)}"
        f"Digest `{plan.digest}`. **Approve** runs this plan: the stream is stopped at its next batch boundary, and "
        "runs again afterwards, unless it was stopped before. "
        "If the plan has changed by then, the stream is not changed, and the run fails. "
        f"**Reject**, or no answer in {format_duration(patience_ms)}, changes nothing.\n"
    )


def list_plan(plan: OperationRecord, more: Iterable[str] = ()) -> str:
    """Format the text of a plan without markup, its first line as a title and ``more`` after the others."""
    told, *lines = plan.text.splitlines()
    listed = "\n".join(f"- {_plain(line)}" for line in (*lines, *more))
    return f"**{_plain(told)}**\n\n{listed}\n\n"


def _plain(line: str) -> str:
    """Escape the markup of a line. Airflow's page shows Markdown, and in a block of code it would join the lines."""
    return "".join(f"\\{each}" if each in string.punctuation else each for each in line.strip())


def name_user(user: Any) -> str:  # noqa: ANN401  what Airflow says of a user
    """Return the name of the user who answered. An answer that Airflow gave itself has no user."""
    if user is None:
        return "no user: the time was up"
    name = user.get("name") if isinstance(user, dict) else getattr(user, "name", None)
    return str(name or "an unnamed user")
