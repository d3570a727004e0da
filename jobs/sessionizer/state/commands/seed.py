"""``seed``: begin a stream with a history."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.state.commands.canary_options import canary_option, terms_of
from sessionizer.state.commands.command import Command, Plan, option
from sessionizer.state.commands.steps import (
    Activate,
    DeleteLaterRows,
    KeepTypes,
    PointOfNoReturn,
    ReadHistory,
    Stop,
    WriteFinishedSessions,
    new_lineage,
)
from sessionizer.state.seeds.seed_plan import ADDRESSES, BEGINNING, NOW, SOURCE

if TYPE_CHECKING:
    from sessionizer.control.execution import Step
    from sessionizer.lineage.canary.judge import CanaryTerms
    from sessionizer.state.seeds.seed_plan import SeedDecision

_PLACES: Final = ", ".join(f"{beginning}… for {owner}" for beginning, owner in ADDRESSES.items())
_POSITION: Final = '{"clicks":{"0":1200}}'


@dataclass(frozen=True, kw_only=True)
class Seed(Command):
    """Show how a stream would begin with a history. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "seed"
    purpose: ClassVar = "start with a history"
    writes_tables: ClassVar = True
    begins_stream: ClassVar = True
    needed: ClassVar = ("history",)

    history: str = option(
        "--history",
        "History",
        f"a folder or URI of files or of a Delta table, {_PLACES}, or {SOURCE} for the stream's own source",
        default=MISSING,
        examples=(SOURCE,),
    )
    table: str | None = option(
        "--table", "Table", "table or view of a database, or part of a checkpoint's state, as OPERATOR/NAME"
    )
    connection: str | None = option(
        None, "Connection", "of a database: the id of the connection, in Airflow, that holds its user and password"
    )
    user: str | None = option("--user", None, "user of the database. JDBC_PASSWORD holds the password")
    query: str | None = option(
        "--query",
        None,
        "query that makes rows of the source out of those of a table or state: select … from history",
    )
    until: str | None = option(
        "--until",
        "Up to",
        "the moment up to which the history counts. Without it: the watermark that the history leads to",
        is_moment=True,
    )
    live_from: str | None = option(
        "--live-from",
        "Live from",
        f"start of the live source: {BEGINNING}, {NOW}, or its position as Spark writes it. Without it: {BEGINNING} or "
        f"where {SOURCE} ends",
        examples=(BEGINNING, NOW),
    )
    backfill: bool = option(
        "--backfill", "Back-fill", "write the finished sessions of the history into the tables", default=False
    )
    start_over: bool = option(
        "--start-over",
        "Start over",
        "leave the lineage that the stream has, and delete the rows that it wrote",
        default=False,
    )
    canary: int = canary_option()

    def plan(self, decision: SeedDecision, *, newest_batch: int = -1) -> Plan[SeedDecision]:
        """Decide what happens, in order. ``newest_batch``: of the lineage that is left, -1 for none."""
        return Plan(
            decision,
            leaves=(decision.leaves or "", newest_batch),
            steps=(
                Stop(),
                ReadHistory(),
                *new_lineage(decision.canary if decision.leaves else None),
                PointOfNoReturn(),
                *((DeleteLaterRows(),) if decision.leaves else ()),
                Activate(),
                *self.last_steps,
            ),
        )

    @property
    def last_steps(self) -> tuple[Step, ...]:
        """Steps that follow the activation. A try that was killed before them runs them again."""
        return (KeepTypes(), *((WriteFinishedSessions(),) if self.backfill else ()))

    @property
    def terms(self) -> CanaryTerms | None:
        """Terms of the new lineage's canary. None without a lineage before, because nothing can be compared."""
        return terms_of(self.canary, like_before=False) if self.start_over else None

    def until_ms(self) -> int | None:
        """Parse the moment to epoch ms, UTC if it has no offset. Raises InvalidSpec."""
        if self.until is None:
            return None
        found = moment_of(self.until, "--until")
        if not 0 < found <= epoch_ms():
            allowed = "a moment since 1970 that has passed: a watermark never passes the clock"
            raise InvalidSpec("--until", self.until, allowed)
        return found

    def live(self) -> str:
        """Return the position at which the live source begins. Raises InvalidSpec."""
        given = self.live_from
        if self.history == SOURCE:
            if given is not None:
                allowed = f"Omit it: with --history {SOURCE} the stream continues where the history ends"
                raise InvalidSpec("--live-from", given, allowed)
            return SOURCE
        if given is None or given in (BEGINNING, NOW):
            return given or BEGINNING
        try:
            json.loads(given)
        except ValueError as error:
            raise InvalidSpec("--live-from", given, f"{BEGINNING}, {NOW}, or JSON such as {_POSITION}") from error
        return given
