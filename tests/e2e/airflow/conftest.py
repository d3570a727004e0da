"""A real Airflow for the whole module, its drivers started through spark-submit."""

import json
import os
from collections.abc import Iterator
from shutil import copytree

import pytest

from sessionizer_demo.local_airflow import api as airflow_api
from sessionizer_demo.local_airflow.installation import Installation
from support.places import REPOSITORY, SUPPORT
from support.processes.live_airflow import PLAIN_SPEC, Platform, running_airflow

STREAMS = ("clicks", "visits")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Platform]:
    """A module may have `SETTINGS`, `STREAMS` and a `SPEC` of its own."""
    streams = getattr(request.module, "STREAMS", STREAMS)
    root = tmp_path_factory.mktemp("platform")
    specs = root / "specs"
    specs.mkdir()
    # a test puts DAG files of its own beside ours
    dags = copytree(SUPPORT / "faults" / "slow_dags", root / "dags")
    for name in streams:
        (specs / f"{name}.yaml").write_text(getattr(request.module, "SPEC", PLAIN_SPEC).format(name=name))
    installation = Installation(
        root=root,
        settings={
            "SESSIONIZER_APPLICATION": str(SUPPORT / "processes" / "scripted_driver.py"),
            "SESSIONIZER_STREAMS": str(specs),
            "SESSIONIZER_WATCH_LEASE": "15 seconds",
            "SESSIONIZER_LANDING_INTERVAL": "5 seconds",
            "SESSIONIZER_REPORT_INTERVAL": "10 seconds",
            "SESSIONIZER_STALE_LIMIT": "30 seconds",
            "SESSIONIZER_FIRST_BACKOFF": "2 seconds",
            "SESSIONIZER_NOTIFIER": "support.processes.file_notifier.FileNotifier",
            "SESSIONIZER_NOTIFIER_ARGUMENTS": json.dumps({"path": str(root / "told.jsonl")}),
            # as users have it who keep their own notifiers beside ours
            "PYTHONPATH": os.pathsep.join(str(REPOSITORY / part) for part in ("jobs", "plugins", "demo", "tests")),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            **getattr(request.module, "SETTINGS", {}),
        },
    )
    # a demo looks once a second, which is half a second for each of a hundred things that a module waits for
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(airflow_api, "POLL_SECONDS", 0.2)
        with running_airflow(installation, {f"{name}.supervise" for name in streams}) as found:
            yield found
