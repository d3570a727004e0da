"""What may befall a supervised stream and the Airflow that supervises it, by a fault's name."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import psutil  # type: ignore[import-untyped]

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.records.process_records import read_launch
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer_demo.local_airflow.api import wait_until
from support.places import known
from support.processes.live_airflow import TASK, Platform, tolerant
from support.processes.ports import eventually

STOPPED_SECONDS = 60.0


@dataclass(frozen=True)
class Fault:
    """`inflict` does it, and undoes what only a person can undo; then either the same driver works on or another."""

    inflict: Callable[[Platform], None]
    same_driver: bool


def kill_driver(platform: Platform) -> None:
    os.killpg(known(known(read_launch(platform.home)).pid), signal.SIGKILL)


def freeze_driver(platform: Platform) -> None:
    os.kill(known(known(platform.look().lease).pid), signal.SIGSTOP)


def restart(part: str, away_s: float = 0) -> Fault:
    def inflict(platform: Platform) -> None:
        platform.parts.kill(part)
        time.sleep(away_s)
        platform.parts.start(part)

    return Fault(inflict, same_driver=True)


def api_away(seconds: float) -> Fault:
    return restart("api-server", seconds)


def kill_all_of_airflow(platform: Platform) -> None:
    platform.parts.kill_all()
    platform.parts.start_all()


def kill_task(platform: Platform) -> None:
    """The process in which a worker runs the task; if there is none, that of the next watch as soon as it is there."""
    found: list[psutil.Process] = []

    def is_caught() -> bool:
        scheduler = psutil.Process(platform.parts.running["scheduler"].pid)
        found.extend(process for process in scheduler.children(recursive=True) if is_of(platform, process))
        return bool(found)

    eventually(is_caught, 120, "a worker that runs the task")
    found[0].kill()


def task_of(process: psutil.Process) -> str | None:
    try:
        title = " ".join(process.cmdline()).strip()
    except psutil.Error:
        return None
    found = title.removeprefix("airflow worker -- ")
    return None if found == title or " " in found else found


def is_of(platform: Platform, process: psutil.Process) -> bool:
    task = task_of(process)
    return task is not None and platform.task(platform.dag, platform.watch(), TASK)["id"] == task


def mark_failed_then_start(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    platform.mark_failed()
    platform.wait_for_pause()
    platform.wait_until_stopped(uid, STOPPED_SECONDS)
    wait_until(lambda: read_desired(platform.home).state is DesiredState.STOPPED, 10, "what people want")
    platform.run_now(f"{platform.stream}.start")
    platform.api.unpause(platform.dag)


def clear(platform: Platform) -> None:
    uid = platform.wait_for_driver()
    platform.clear()
    platform.wait_until_stopped(uid, STOPPED_SECONDS)


def pause_for_a_while(platform: Platform) -> None:
    platform.api.set_paused(platform.dag, paused=True)
    before = batches(platform)
    wait_until(lambda: batches(platform) >= before + 10, 60, "the driver to work on")
    platform.api.unpause(platform.dag)


def batches(platform: Platform) -> int:
    beat = HEARTBEAT_FILE.of(platform.home).read()
    return -1 if beat is None or beat.batch_id is None else beat.batch_id


FAULTS = {
    "kill the driver": Fault(kill_driver, same_driver=False),
    "freeze the driver": Fault(freeze_driver, same_driver=False),
    "kill the triggerer": restart("triggerer"),
    "kill the scheduler": restart("scheduler"),
    "kill the DAG processor": restart("dag-processor"),
    "kill the API server": api_away(10),
    "kill the task": Fault(kill_task, same_driver=True),
    "kill all of Airflow": Fault(kill_all_of_airflow, same_driver=True),
    "mark failed, then start": Fault(mark_failed_then_start, same_driver=False),
    "clear": Fault(clear, same_driver=False),
    "pause for a while": Fault(pause_for_a_while, same_driver=True),
}


def drawn(random: Random, number: int) -> list[str]:
    """As from a shuffled deck, which is shuffled anew when it is used up: in a long run all of them come up."""
    names: list[str] = []
    while len(names) < number:
        names += random.sample(sorted(FAULTS), len(FAULTS))
    return names[:number]


def survive(platform: Platform, fault: Fault, seconds: float) -> None:
    """Inflict the fault on a stream that works, and see it work within `seconds`, with the driver that it should have.

    Whichever it was, the next watch begins too: only then do all parts of Airflow do their work again.
    """
    uid, watch = platform.wait_for_driver(), platform.watch()
    fault.inflict(platform)
    if not fault.same_driver:
        platform.wait_for_driver(other_than=uid, seconds=seconds)
    platform.wait_for_watch(other_than=watch, seconds=seconds)
    wait_until(tolerant(platform.api.is_healthy), seconds, "a healthy Airflow")
    if fault.same_driver:
        assert platform.working_uid() == uid
