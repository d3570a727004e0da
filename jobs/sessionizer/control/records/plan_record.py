"""The files ``plans/<request>.json``: a command's plan, which a user may approve elsewhere.

A request has one plan, the first that was made. A later reader sees the same plan, whatever the stream did meanwhile.
The digest tells at execution whether the plan still holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.errors import DamagedFile
from sessionizer.home.data_root import uri_of
from sessionizer.home.json_file import create_record, have_folder, require_undamaged
from sessionizer.home.json_record import JsonRecord

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanRecord(JsonRecord):
    """A plan of a ``verb``, approved by ``digest``. ``text`` is the plan in lines, for people.

    ``savepoint`` is the savepoint that it uses, if any. ``options`` are the command's other options, as typed.
    ``possible`` tells whether it could be executed. ``made_at`` is epoch ms.
    """

    request: str
    verb: str
    stream: str
    savepoint: str
    digest: str
    possible: bool
    text: str
    made_at: int
    options: str = ""


def keep_plan_of(home: StreamHome, plan: PlanRecord) -> PlanRecord:
    """Keep the plan unless its request has one. Returns the plan of the request.

    Raises UnwritablePath, DiskFull, ControlUnreachable, DamagedFile, InvalidSpec.
    """
    have_folder(home.control_files.plans, "a plan")
    create_record(home.control_files.plan(plan.request), plan)
    return require_plan(home, plan.request)


def read_plan(home: StreamHome, request: str) -> PlanRecord | None:
    """Return the plan of the request, or None. Raises DamagedFile, ControlUnreachable, InvalidSpec."""
    return require_undamaged(PlanRecord, home.control_files.plan(request))


def require_plan(home: StreamHome, request: str) -> PlanRecord:
    """Return the plan of the request. Raises DamagedFile also if it is absent, ControlUnreachable, InvalidSpec."""
    plan = read_plan(home, request)
    if plan is None:
        raise DamagedFile(uri_of(home.control_files.plan(request)), "it is gone")
    return plan
