"""No cause without a test that makes the real one and reads what people are told."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from sessionizer.causes.table import CAUSES
from support.expected.told_causes import MADE
from support.places import REPOSITORY

OF_COMMANDS: Final = "it ends a command that somebody has typed, which tells them itself: no supervisor sees it"
SAVING_AND_RESTORING: Final = (
    "UnknownSavepoint", "UnusableSavepoint", "NothingToSave", "BatchOutrun", "HalfWrittenBatch", "UnfaithfulState",
    "MigrationRefused", "StreamBegun", "PlanChanged", "EventsGone", "EventsUnread", "NoWayBack", "RowsGone", "RowsLeft",
    "DriverStillRuns", "StreamMovedOn", "OperationPastReturn", "StreamRunsAgain", "StreamChanged", "ReleaseBroken",
    "SourceFileUnfit",
)  # fmt: skip
INSTALLING: Final = ("JarsNotFetched", "JvmNotStarted", "LookupNotInstalled")
LOOKING: Final = (
    "NothingToShow", "NothingToProve", "ReplayDiffers", "DamagedCheckpoint", "UnforeseenContent", "NoWorkingFolder",
)  # fmt: skip
ON_CLUSTERS: Final = "it takes a cluster: tests/e2e/cluster makes the real one and reads what people are told"
ON_TABLES: Final = "a batch that fails is told in one way: tests/spark/sinks/test_rules_of_tables.py makes a real rule"
BY_FILES: Final = "tests/unit/fleet/test_any_damaged_file.py makes files that cannot be read, for every reader"
OTHERS: Final = {
    **dict.fromkeys((*SAVING_AND_RESTORING, *LOOKING, *INSTALLING), OF_COMMANDS),
    **dict.fromkeys(("HomeNotShared", "ExecutorsUnfit"), ON_CLUSTERS),
    **dict.fromkeys(("table_rule", "table_conflict", "table_log_damaged", "table_too_new"), ON_TABLES),
    "UnreadablePath": BY_FILES,
}
"""Causes of which no alert is told, each with the reason."""


def test_the_documentation_has_each_cause() -> None:
    table = (REPOSITORY / "docs" / "operating.md").read_text().partition("## Causes")[2].partition("\n## ")[0]
    assert {name for name in CAUSES if OTHERS.get(name) != OF_COMMANDS and f"`{name}`" not in table} == set()


def test_each_cause_is_made_for_real_or_said_why_not() -> None:
    for file in Path(__file__).parent.glob("test_told_of_*.py"):
        import_module(file.stem)
    assert MADE | set(OTHERS) == set(CAUSES)
    assert not MADE & set(OTHERS)
