"""``plans/<request>.json``: what a verb would do, for whoever approves it elsewhere than where it was made.

A request has one plan: the first that was made. Whoever reads it later reads what was read before, whatever has become
of the stream meanwhile; that it is still the same is checked by its digest when it is carried out.
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
    """A ``verb``, approved by ``digest``; ``text`` is the plan in lines, for people.

    ``savepoint``: the one that it goes by, if any. ``options``: what else its command is given, as typed.
    ``possible``: whether it could be carried out. ``made_at`` is epoch ms.
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
    """Keep it unless its request has one; returns the one that the request has. Raises UnwritablePath, DamagedFile."""
    have_folder(home.control_files.plans, "a plan")
    create_record(home.control_files.plan(plan.request), plan)
    return require_plan(home, plan.request)


def read_plan(home: StreamHome, request: str) -> PlanRecord | None:
    """The plan of the request; None if it has none. Raises DamagedFile, ControlUnreachable, InvalidSpec."""
    return require_undamaged(PlanRecord, home.control_files.plan(request))


def require_plan(home: StreamHome, request: str) -> PlanRecord:
    """As ``read_plan``; one that is gone is damage, too."""
    plan = read_plan(home, request)
    if plan is None:
        raise DamagedFile(uri_of(home.control_files.plan(request)), "it is gone")
    return plan
