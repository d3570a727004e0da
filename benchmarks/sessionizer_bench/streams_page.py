"""The cost of the Streams page beside Airflow's own list of DAGs, in one running Airflow with 50 streams.

Both are asked in turns: the document that a page asks for again and again, and the first paint in a browser. The
streams have a driver's records and a week of history, but no driver.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import httpx
import psutil  # type: ignore[import-untyped]

from sessionizer_bench.places import RUNS
from sessionizer_demo.local_airflow.api import Api, wait_until
from sessionizer_demo.local_airflow.installation import Installation
from sessionizer_demo.local_airflow.parts import Parts, end_processes, left_behind
from support.pages.browser import Browser, chromium
from support.places import REPOSITORY
from support.processes.fabricated_fleet import STEADY, work
from support.processes.fabricated_platform import Platform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STREAMS: Final = 50
OURS: Final = "the Streams page"
AIRFLOWS: Final = "Airflow's list of DAGs"
DOCUMENTS: Final = {OURS: "/streams-page/api/fleet", AIRFLOWS: f"/ui/dags?limit={STREAMS}"}
PAGES: Final = {OURS: "/streams-page/", AIRFLOWS: "/dags"}
PROMISED_BYTES: Final = 50_000
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint').map((each) => each.startTime)[0]"
_WATCHED_S: Final = 60


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds and bytes of each request by page, and the API server's share of a core without and with a page."""

    refresh_ms: dict[str, list[float]]
    paint_ms: dict[str, list[float]]
    document_bytes: dict[str, int]
    idle_cores: float
    open_cores: float


def measure(streams: int, repetitions: int, say: Callable[[str], None]) -> Costs:
    """Start an Airflow with so many streams, and measure in turns."""
    with running(streams, say) as (installation, parts), chromium() as browser:
        headers = {"Cookie": f"_token={Api(installation).token()}"}
        log_in(browser, installation)
        refresh: dict[str, list[float]] = {name: [] for name in DOCUMENTS}
        paint: dict[str, list[float]] = {name: [] for name in PAGES}
        size: dict[str, int] = {}
        for _ in range(repetitions + 1):
            for name, path in DOCUMENTS.items():
                begun = time.perf_counter()
                answer = httpx.get(f"{installation.address}{path}", headers=headers, timeout=60).raise_for_status()
                refresh[name].append((time.perf_counter() - begun) * 1000)
                size[name] = len(answer.content)
                time.sleep(2)  # the fleet is shared for two seconds: each request reads it anew
            for name, path in PAGES.items():
                browser.open(f"{installation.address}{path}")
                wait_until(lambda: browser.ask(_PAINT) is not None, 60, f"a paint of {name}")
                paint[name].append(browser.ask(_PAINT))
        server = psutil.Process(parts.running["api-server"].pid)
        browser.open("about:blank")
        idle = processor_of(server)
        browser.open(f"{installation.address}{PAGES[OURS]}")
        return Costs(
            {name: times[1:] for name, times in refresh.items()},
            {name: times[1:] for name, times in paint.items()},
            size,
            idle,
            processor_of(server),
        )


def processor_of(process: psutil.Process) -> float:
    """Return the share of a core that the process and its children take for a minute."""

    def taken() -> float:
        family = [process, *process.children(recursive=True)]
        return float(sum(each.cpu_times().user + each.cpu_times().system for each in family))

    before = taken()
    time.sleep(_WATCHED_S)
    return (taken() - before) / _WATCHED_S


def lines(found: Costs) -> list[str]:
    """Return the figures in words. Milliseconds mean something only as a ratio of the same run."""

    def told(name: str, figures: dict[str, list[float]], most: int) -> str:
        ours, theirs = median(figures[OURS]), median(figures[AIRFLOWS])
        return f"{name}: {ours:,.0f} ms (below {most:,}), {ours / theirs:.2f} of {AIRFLOWS} ({theirs:,.0f} ms)"

    share = (found.open_cores - found.idle_cores) * 100
    return [
        told("refresh", found.refresh_ms, 300),
        told("first paint", found.paint_ms, 1_000),
        f"document: {found.document_bytes[OURS]:,} bytes (below {PROMISED_BYTES:,})",
        f"API server: one open page takes {share:.1f} % of a core (at most 2), beside {found.idle_cores * 100:.1f} %",
    ]


@contextmanager
def running(streams: int, say: Callable[[str], None]) -> Iterator[tuple[Installation, Parts]]:
    """Run an Airflow with so many streams, ended with the block."""
    root = Path(RUNS) / f"page-{time.time_ns()}"
    specs = root / "specs"
    specs.mkdir(parents=True)
    settings: dict[str, Any] = {
        "SESSIONIZER_STREAMS": str(specs),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    }
    installation = Installation(root=root, settings=settings)
    platform = Platform(installation.platform_home, specs)
    for number in range(streams):
        name = f"stream_{number:02}"
        platform.add(name)
        work(platform, name, STEADY, time.time_ns() // 1_000_000)
    parts, api = Parts(installation), Api(installation)
    try:
        say(f"starting an Airflow with {streams} streams")
        parts.start_all()
        wait_until(api.is_healthy, 180, "a healthy Airflow")
        wait_until(lambda: len(api.dag_ids()) > streams * 3, 300, "the DAGs")
        yield installation, parts
    finally:
        parts.stop_all()
        end_processes(left_behind(installation), seconds=0.0)


def log_in(browser: Browser, installation: Installation) -> None:
    """Sign in as the installation's user."""
    browser.show_as(1280, 900)
    browser.open(installation.address)
    browser.fill("input[name=username]", "admin")
    browser.fill("input[name=password]", installation.password)
    browser.click("button", "Sign in")
    browser.wait_for_text("Active Dags")
