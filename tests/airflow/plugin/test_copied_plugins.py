"""A plugins folder that somebody copied, as Airflow's own loader sees it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sessionizer_airflow.project import SOURCE_ROOT

if TYPE_CHECKING:
    from pathlib import Path

PLUGINS = SOURCE_ROOT / "plugins"
LOAD = """
import json, sys
from airflow import plugins_manager
plugins, errors = plugins_manager._get_plugins()
folder = sys.argv[1]
bare = [name for name, module in sys.modules.items()
        if (getattr(module, "__file__", None) or "").startswith(folder) and not name.startswith("sessionizer_")]
import html
print(json.dumps({"ours": [str(each.source) for each in plugins if each.name == "sessionizer"], "errors": errors,
                  "bare": bare, "html": html.escape("<")}))
"""


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The outcome of `cp -r plugins/* X`, which leaves hidden files of the first level behind."""
    target = tmp_path / "X"
    target.mkdir()
    subprocess.run(["/bin/sh", "-c", f"cp -r {PLUGINS}/* {target}"], check=True)
    for cache in target.rglob("__pycache__"):
        shutil.rmtree(cache)
    return target


def loaded(folder: Path, syntax: str = "glob") -> dict[str, Any]:
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(folder.parent / "airflow"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(folder),
        "AIRFLOW__CORE__DAG_IGNORE_FILE_SYNTAX": syntax,
        "PYTHONPATH": os.pathsep.join([str(folder), str(SOURCE_ROOT / "jobs")]),
    }
    command = [sys.executable, "-c", LOAD, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("syntax", ["glob", "regexp"])
def test_the_loader_finds_one_file(copied: Path, syntax: str) -> None:
    found = loaded(copied, syntax)
    assert found["errors"] == {}
    assert found["ours"] == ["$PLUGINS_FOLDER/sessionizer_plugin.py"]
    assert found["bare"] == []


def test_modules_do_no_harm_where_every_hidden_file_is_lost(copied: Path) -> None:
    for hidden in copied.rglob(".*"):
        hidden.unlink()
    found = loaded(copied)
    assert found["errors"] == {}
    assert len(found["ours"]) == 1
    assert found["html"] == "&lt;"
