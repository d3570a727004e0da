"""The state of a stream's turn once its run is over: an open canary holds the next wave back if the run began it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.deployment.waiting import UpgradeState
from sessionizer.fleet import waves
from sessionizer.home.clock import epoch_ms
from sessionizer.home.record_file import have_folder
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.canary.judge import CanaryOutcome
from support.verbs.begun_restore import begun_restore

BEFORE = begun_restore().lineage_from


@pytest.mark.parametrize(
    ("lineage_to", "outcome", "works", "state"),
    [
        ("20261123T080000-bbbbbb", None, True, UpgradeState.RUNS),
        ("20261123T080000-bbbbbb", CanaryOutcome.PASSED, True, UpgradeState.DONE),
        ("20261123T080000-bbbbbb", CanaryOutcome.FAILED, True, UpgradeState.FAILED),
        (BEFORE, None, True, UpgradeState.DONE),
        (BEFORE, None, False, UpgradeState.RUNS),
        (BEFORE, CanaryOutcome.FAILED, True, UpgradeState.FAILED),
    ],
)
def test_an_open_canary_counts_only_if_the_run_began_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lineage_to: str,
    outcome: CanaryOutcome | None,
    works: bool,
    state: UpgradeState,
) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    have_folder(home.control, "the test")
    write_desired(home, DesiredState.RUNNING, by="tests", why="tests")
    done = replace(begun_restore(), verb="upgrade", lineage_to=lineage_to)
    canary = SimpleNamespace(outcome=outcome, is_settled=outcome is CanaryOutcome.PASSED)
    monkeypatch.setattr(waves, "read_operations", lambda _: [done])
    monkeypatch.setattr(waves, "examine_canary", lambda _: canary)
    monkeypatch.setattr(waves, "read_driver", lambda *_: SimpleNamespace(works=works))
    assert waves.state_after_run(home, epoch_ms(), still_waits=False) is state
