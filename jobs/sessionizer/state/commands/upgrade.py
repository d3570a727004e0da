"""``upgrade``: continue a stream by its file and by the programs that are installed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sessionizer.state.commands.apply import Apply
from sessionizer.state.commands.command import option


@dataclass(frozen=True, kw_only=True)
class Upgrade(Apply):
    """Show how the stream can go on by its file and the installed programs. With --approve DIGEST, do it.

    The plan needs no Spark, and the stream runs on meanwhile. With --deep Spark also checks the columns and the SQL.
    """

    name: ClassVar = "upgrade"
    purpose: ClassVar = "go on by the file and by the programs that are installed here"
    takes_programs: ClassVar[bool] = True

    deep: bool = option(
        "--deep", None, "have Spark check columns and SQL for the plan as well", default=False, is_recorded=False
    )
