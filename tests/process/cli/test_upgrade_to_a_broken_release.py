"""An upgrade to a release whose driver does not load: refused before the stream is stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.control.records.desired_state import DesiredState, read_desired, write_desired
from sessionizer.control.records.operation_record import read_operations
from sessionizer.errors import ReleaseBroken
from sessionizer.launch.installation import PYTHON_VARIABLE, require_driver_loads
from sessionizer.lineage.fingerprint import RELEASE, read_fingerprint
from support.releases.cut_release import RELEASES, unpack_release
from support.releases.environments import environment_with_release, packages_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("module", ["cli/app.py", "core/key_group/merging.py"])
def test_an_upgrade_to_a_release_that_does_not_load_leaves_the_stream_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    stage = unpack_release(RELEASES / "0.2.0", tmp_path / "stage")
    home, lineage = stage.stream_home, str(stage.lineage)
    write_desired(home, DesiredState.RUNNING, by="ops", why="")
    python = environment_with_release(tmp_path / "new", "9.0.0")
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    require_driver_loads()
    (packages_of(tmp_path / "new") / "sessionizer" / module).write_text("import no_such_package\n")
    command = ["upgrade", stage.name, "--home", str(stage.home), "--streams", str(stage.streams)]
    plan = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert plan["possible"]
    refused = CliRunner().invoke(app, [*command, "--approve", plan["digest"]])
    assert isinstance(refused.exception, ReleaseBroken)
    assert "no_such_package" in refused.exception.said
    assert (read_desired(home).state, read_operations(home)) == (DesiredState.RUNNING, [])
    assert read_fingerprint(home, lineage).versions[RELEASE] == "0.2.0"
