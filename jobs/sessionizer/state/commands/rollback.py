"""``rollback``: make the lineage before the active one active again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sessionizer.state.commands.command import Command


@dataclass(frozen=True, kw_only=True)
class Rollback(Command):
    """Show what going back to the lineage before would do. With --approve DIGEST, do it. Typed again it continues."""

    name: ClassVar = "rollback"
    purpose: ClassVar = "go back to the lineage before the last change of the state"
    reads_spec: ClassVar = False
    writes_tables: ClassVar = True
