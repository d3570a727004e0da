"""Savepoints from a running Airflow, of a stream that Spark really drives."""

import pytest

from sessionizer_demo.local_airflow.api import wait_until
from support.places import known
from support.processes.live_airflow import DRIVEN, OUR_DAGS, PLAIN_SPEC, Platform

pytestmark = pytest.mark.long

SETTINGS = DRIVEN | OUR_DAGS
SPEC = PLAIN_SPEC + "savepoints: {{every: 30 minutes}}\n"
SCHEDULED = "sessionizer.savepoints"


def run_to_its_end(platform: Platform, dag: str) -> tuple[str, str]:
    run = platform.run_now(dag)
    return run, platform.wait_for_end(dag, run, 240)


def test_a_stream_gets_its_savepoint_while_another_fails_to(platform: Platform) -> None:
    platform.bring("0", [f"u{number}" for number in range(50)])
    platform.api.unpause(platform.dag)
    platform.wait_for_driver(seconds=180)
    wait_until(lambda: platform.look().state.is_live, 30, "a driver at work")
    visits = platform.of("visits").home
    visits.prepare()
    visits.lineage_record.write_text("{")
    run, state = run_to_its_end(platform, SCHEDULED)
    assert state == "failed", "nobody would notice"
    tasks = [task for task in platform.tasks(SCHEDULED, run) if task["map_index"] >= 0]
    found = {task["rendered_map_index"]: task["state"] for task in tasks}
    assert found == {"clicks": "success", "visits": "failed"}
    (made,) = platform.savepoints()
    assert known(known(made.manifest).counts).events == 50
    assert known(made.begun).why == "scheduled, every 30 minutes"
    assert platform.working_uid(), "the stream was touched"


def test_the_task_that_failed_ends_with_what_to_do(platform: Platform) -> None:
    run = platform.runs(SCHEDULED)[0]["dag_run_id"]
    (failed,) = [task for task in platform.tasks(SCHEDULED, run) if task["state"] == "failed"]
    assert failed["try_number"] == 1, "a new try mends nothing"
    said = platform.lines_of(SCHEDULED, run, "create/logs/1", at={"error"}, more=f"&map_index={failed['map_index']}")
    assert said[-1].startswith("What to do: "), said
    assert "lineage.json" in said[-2]


def test_what_was_just_saved_is_not_saved_again(platform: Platform) -> None:
    platform.of("visits").home.lineage_record.unlink()
    run, state = run_to_its_end(platform, SCHEDULED)
    assert state == "success"
    states = {"find_due": "success", "create": "skipped", "prune": "success"}
    assert platform.states(SCHEDULED, run) == states
    assert len(platform.savepoints()) == 1
