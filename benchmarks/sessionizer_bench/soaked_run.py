"""A soak from its folders to its figures."""

from __future__ import annotations

import json
import os
import shutil
import threading
from contextlib import ExitStack, suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final

from sessionizer.home.clock import epoch_ms
from sessionizer_bench.data.soak_feed import WATERMARK_DELAY_MS, SoakFeed
from sessionizer_bench.measuring.machine import description
from sessionizer_bench.measuring.soak_figures import compare_tables, slopes
from sessionizer_bench.places import REPOSITORY
from sessionizer_bench.soak import Soak
from sessionizer_bench.soaked_driver import Keeper
from sessionizer_bench.surroundings import Surroundings
from sessionizer_demo.feed.pacing import StopFlag
from support.expected.landed import landed
from support.histories.typed_moments import TypedProgram
from support.releases.environments import REFACTORING, release_with
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

IDLE_AFTER: Final = "10 minutes"
"""A stalled feed is not a quiet one: later rows must not be late."""
SAMPLE_EVERY_S: Final = 10.0
FAULT_EVERY_S: Final = 60.0


def measure(
    hours: float, seed: int, rate: float, folder: Path, say: Callable[[str], None], *, airflow: bool, **faults: Any
) -> dict[str, Any]:
    """Let a stream run for so many hours, and return what it held and what it used.

    ``airflow``: it keeps the driver. ``faults``: of `Surroundings`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("logs", "tmp"):
        (folder / name).mkdir(parents=True)
    os.environ["TMPDIR"] = str(folder / "tmp")
    os.environ.setdefault("SESSIONIZER_JARS", str(REPOSITORY / ".jars" / "spark"))
    with ExitStack() as open_:
        soak = _set_up(seed, rate, folder, say, Surroundings.begin(folder, open_, **faults))
        if airflow:
            soak.airflow = Keeper.begin(soak.stage, soak.around.variables)
            open_.callback(soak.airflow.end)
        _run(soak, hours)
        return {
            "hours": hours, "seed": seed, "rate": rate, "machine": description(), "around": soak.around.faults,
            "rows": sum(len(tick.rows) for tick in soak.feed.written()), "drawn": soak.faults,
            "kills": soak.kills, "faults": dict(soak.done),
            "exit_codes": dict(soak.codes), "found": soak.found,
            "tables": compare_tables(soak.feed.expected(soak.stage.spec()), landed(soak.stage)),
            "slopes": slopes(soak.samples), "samples": soak.samples,
        }  # fmt: skip


def _set_up(seed: int, rate: float, folder: Path, say: Callable[[str], None], around: Surroundings) -> Soak:
    delay = f"{WATERMARK_DELAY_MS // 1000} seconds"
    spec = clicks_spec(max_events=200, watermark_delay=delay, idle_after=IDLE_AFTER)
    spec["source"] = {**around.source(spec["source"]), "options": around.options(4)}
    stage = Stage.set_up(folder, spec)
    feed = SoakFeed(around.sink(stage.feed), epoch_ms() // 1000 * 1000, seed, rate)
    program = TypedProgram(stage.home, stage.streams, folder / "logs", variables=around.variables)
    releases = (program.jobs, release_with(REFACTORING, folder / "other") / "jobs")
    return Soak(stage, feed, program, Random(seed), say, spec, releases, around)  # noqa: S311  faults, not secrets


def _run(soak: Soak, hours: float) -> None:
    stop, over = StopFlag(), threading.Event()
    feeder = threading.Thread(target=soak.feed.write, args=(stop,), daemon=True)
    sampler = threading.Thread(target=_sample, args=(soak, over), daemon=True)
    feeder.start()
    sampler.start()
    try:
        soak.run(hours, FAULT_EVERY_S)
        stop.set()
        feeder.join()
        soak.finish()
    finally:
        stop.set()
        over.set()
        if soak.driver is not None:
            soak.driver.kill()


def _sample(soak: Soak, over: threading.Event) -> None:
    while not over.wait(SAMPLE_EVERY_S):
        with suppress(OSError):  # a folder may go while it is counted
            soak.sample()


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the figures as lines to print."""
    yield f"{found['hours']} h, seed {found['seed']}: {found['rows']:,} rows"
    yield f"  {found['drawn']} faults: {found['faults']}"
    for name, table in found["tables"].items():
        wrong = ", ".join(f"{table[how]} {how}" for how in ("lost", "doubled", "others"))
        yield f"  {name}: {table['expected']:,} rows, {wrong}"
    yield f"  {'figure':<28}{'first quarter':>16}{'last quarter':>16}{'an hour':>14}"
    for name, each in found["slopes"].items():
        yield f"  {name:<28}{each['first']:>16,.0f}{each['last']:>16,.0f}{each['an_hour']:>14,.1f}"
    yield from (f"  FOUND {text}" for text in found["found"])


def is_exact(found: dict[str, Any]) -> bool:
    """Whether each row is in the tables once, and nothing was found on the way."""
    return not found["found"] and not any(
        table[name] for table in found["tables"].values() for name in ("lost", "doubled", "others")
    )


def store(found: dict[str, Any], file: Path) -> None:
    """Write the figures."""
    file.write_text(json.dumps(found, indent=1))
