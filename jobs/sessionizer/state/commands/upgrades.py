"""``apply`` and ``upgrade``: continue a stream by its file, ``upgrade`` by the installed programs as well."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from sessionizer.control.execution import Step
from sessionizer.deployment.upgrade_plan import UpgradePlan, UpgradeRequest
from sessionizer.errors import InvalidSpec
from sessionizer.state.commands.command import ACCEPT, CANARY, KEY_GROUPS, PARTITIONS, ROLL_BACK, Command, Plan, option
from sessionizer.state.commands.steps import (
    Activate,
    Compare,
    CopyCheckpoint,
    DeleteLaterRows,
    KeepSpec,
    NotePrograms,
    NoteTables,
    PointOfNoReturn,
    PrepareTables,
    Prove,
    StartEmptyLineage,
    StartLineage,
    Stop,
    WriteFinishedSessions,
    WriteSavepoint,
    WriteSpec,
    new_lineage,
)
from sessionizer.stream_spec.document.upgrades import Upgrades


@dataclass(frozen=True, kw_only=True)
class Apply(Command):
    """Show what continuing with the changed file would do. With --approve DIGEST, do it. Typed again it continues.

    The plan needs no Spark, and the stream runs on meanwhile. With --deep Spark also checks the columns and the SQL.
    """

    name: ClassVar = "apply"
    purpose: ClassVar = "continue with the file's changed spec"
    when_impossible: ClassVar = (
        "correct what the plan names in the spec, or give it in the form's field Accept, then {again}"
    )
    may_repeat: ClassVar = True
    takes_programs: ClassVar[bool] = False
    """Whether the stream goes on by the installed programs as well, even by another line of Spark."""

    accept: tuple[str, ...] = ACCEPT.declare()
    new_lineage: bool = option(
        "--new-lineage",
        "In a new lineage",
        "make a new lineage even if none is needed: with a canary and a way back",
        default=False,
    )
    canary: int = CANARY.declare()
    roll_back_if_failed: bool = ROLL_BACK.declare()
    folder: str | None = option(
        "--in",
        None,
        "folder or URI that gets the savepoint, in a folder per stream. Without it: the stream's home",
        is_folder=True,
    )
    deep: bool = option("--deep", None, "have Spark check columns and SQL for the plan as well", default=False)

    def plan(self, decision: UpgradePlan) -> Plan[UpgradePlan]:
        """Decide what happens: the present lineage gets the spec, or a new one."""
        begun = new_lineage(self.terms, StartEmptyLineage() if decision.request.stateless else StartLineage())
        changes: tuple[Step, ...] = (Stop(), CopyCheckpoint(), PrepareTables(), WriteSpec())
        if decision.replays:
            back = (NoteTables(), PointOfNoReturn(), DeleteLaterRows(), Activate())
            changes = (KeepSpec(), Stop(), PrepareTables(), *begun, *back)
        elif decision.anew:
            changes = (Stop(), WriteSavepoint(), PrepareTables(), *begun, Activate())
        # a new lineage has the installed programs from its begin
        has_finished = decision.migrations or decision.request.stateless
        needed = {WriteFinishedSessions(): has_finished, NotePrograms(): not decision.anew}
        after = [step for step in self.last_steps if needed[step]]
        steps = (*self.first_steps, *changes, *after)
        before_stop = (*self.first_steps, WriteSavepoint(), StartLineage(), Compare()) if decision.replays else ()
        shown = {type(step).__name__: step.says for step in (*before_stop, *steps)} if decision.is_possible else {}
        return self.make_plan(
            replace(decision, steps=shown),
            leaves=(decision.lineage, decision.batch_id),
            steps=steps,
            refusal=decision.refusal,
            is_needed=decision.changes_something,
        )

    @property
    def request(self) -> UpgradeRequest:
        """Request that the plan is made for. Raises InvalidSpec."""
        return UpgradeRequest(self.name, tuple(sorted(set(self.accept))), self.anew, self.terms)

    @property
    def first_steps(self) -> tuple[Step, ...]:
        """Steps that precede the stop of the driver."""
        return ()

    @property
    def last_steps(self) -> tuple[Step, ...]:
        """Steps that follow the decisive change: sessions that were over before a migration get into the tables."""
        return (WriteFinishedSessions(),)

    @property
    def anew(self) -> bool:
        """Whether a new lineage is wanted, whatever changes. A rollback needs one to go back from."""
        return self.new_lineage or self.roll_back_if_failed


@dataclass(frozen=True, kw_only=True)
class Upgrade(Apply):
    """Show what an upgrade to the file and the installed release would do. With --approve DIGEST, do it.

    The plan needs no Spark, and the stream runs on meanwhile. With --deep Spark also checks the columns and the SQL.
    """

    name: ClassVar = "upgrade"
    purpose: ClassVar = "continue with the file's changed spec and the installed release"
    takes_programs: ClassVar[bool] = True
    brings_release: ClassVar = False

    prove: bool = option(
        "--prove",
        "Prove first",
        "replay recorded batches first, and do nothing if a row differs that no changed field explains",
        default=False,
    )
    stateless: bool = option(
        "--stateless",
        "Without the open sessions",
        "leave the open sessions behind, in a new lineage: they are lost, and the plan counts them",
        default=False,
    )
    key_groups: int | None = KEY_GROUPS.declare()
    partitions: int | None = PARTITIONS.declare()
    replay: bool = option(
        "--replay",
        "With a stop of seconds",
        "make a new lineage from a savepoint while the stream runs. What it reads meanwhile is read again",
        default=False,
    )

    def __post_init__(self) -> None:
        """Raise InvalidSpec for options that contradict each other."""
        super().__post_init__()
        if self.replay and self.stateless:
            raise InvalidSpec("--replay", "given", "Omit it, because with --stateless no open session is taken over")

    @property
    def prepares(self) -> bool:
        """Whether its new lineage, if any, is made before the stream is stopped."""
        return self.replay

    @classmethod
    def make_for_window(cls, upgrades: Upgrades) -> Self:
        """Return the upgrade that a maintenance window begins, as the spec has it."""
        batches: dict[str, Any] = {} if upgrades.canary is None else {"canary": upgrades.canary, "new_lineage": True}
        back, replay = upgrades.roll_back_if_failed, upgrades.replay
        return cls(prove=upgrades.prove, roll_back_if_failed=back, replay=replay, **batches)

    @property
    def request(self) -> UpgradeRequest:
        """Request that the plan is made for. Raises InvalidSpec."""
        return replace(
            super().request,
            prove=self.prove,
            stateless=self.stateless,
            key_groups=self.key_groups,
            partitions=self.partitions,
            replay=self.replay,
        )

    @property
    def like_before(self) -> bool:
        """Whether the new lineage makes the same sessions. Not one without open sessions, or that reads again."""
        return not (self.stateless or self.replay)

    @property
    def first_steps(self) -> tuple[Step, ...]:
        """Steps that precede the stop of the driver."""
        return (Prove(),) if self.prove else ()

    @property
    def last_steps(self) -> tuple[Step, ...]:
        """Steps that follow the decisive change: a lineage that goes on in place gets the installed programs."""
        return (NotePrograms(), *super().last_steps)
