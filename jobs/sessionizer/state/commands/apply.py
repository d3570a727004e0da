"""``apply``: continue a stream by its changed spec, in its lineage or in a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sessionizer.state.commands.accept import accept_option
from sessionizer.state.commands.command import Command, option
from sessionizer.state.commands.trial import back_if_unfit_option, terms_of, trial_option

if TYPE_CHECKING:
    from sessionizer.lineage.trial.judging import Terms


@dataclass(frozen=True, kw_only=True)
class Apply(Command):
    """Show what continuing by the changed file would do. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "apply"
    purpose: ClassVar = "go on by the file's changed spec"

    accept: tuple[str, ...] = accept_option()
    new_lineage: bool = option(
        "--new-lineage",
        "In a new lineage",
        "make a new lineage also where the present one could take the change: on trial, with a way back",
        default=False,
    )
    trial: int = trial_option()
    back_if_unfit: bool = back_if_unfit_option()
    folder: str | None = option(
        "--in",
        None,
        "folder or URI that gets the savepoint, in a folder per stream. Without it: the stream's home",
        is_recorded=False,
    )

    @property
    def terms(self) -> Terms | None:
        """Terms of a new lineage's trial, None for no trial. Raises InvalidSpec."""
        return terms_of(self.trial, back_if_unfit=self.back_if_unfit)

    @property
    def anew(self) -> bool:
        """Whether a new lineage is wanted, whatever changes. A rollback needs one to go back from."""
        return self.new_lineage or self.back_if_unfit
