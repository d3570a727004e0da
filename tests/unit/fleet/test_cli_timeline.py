"""``sessionizer timeline``, and the word of health in ``status``."""

import json

import pytest
from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.cli.status import since_when
from sessionizer.control.history.files import KEPT_MS, HistoryWriter, Mark, MarkKind, add_mark
from sessionizer.control.history.sample import Sample
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from support.fixtures.reviewed import Reviewed
from support.processes.fabricated_platform import Platform

NOW = 1_790_000_000_000


def timeline(platform: Platform, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["timeline", *arguments, "--home", str(platform.home)])


def past(home: StreamHome, **figures: int) -> int:
    """A batch a minute ago, and a crash after it."""
    at = epoch_ms() - 60_000
    HistoryWriter(home).add(Sample(at=at, batches=1, rows=600, batch_ms=500, **figures))  # type: ignore[arg-type]
    add_mark(home, Mark(at=at + 1, kind=MarkKind.CRASH, what="memory", text="heap", uid="a"))
    return at


def test_figures_and_marks(platform: Platform) -> None:
    home = platform.add("visits")
    past(home, late=7)
    shown = timeline(platform, "visits", "--since", "30m")
    assert shown.exit_code == 0
    assert shown.stdout.rstrip().endswith(" driver a: heap")
    (row,) = [line.split() for line in shown.stdout.splitlines() if "500 ms" in line]
    assert row[2:4] == ["10", "1"]
    assert row[-2:] == ["7", "0"]


def test_json(platform: Platform) -> None:
    home = platform.add("visits")
    at = past(home)
    told = json.loads(timeline(platform, "visits", "--since", "2h", "--json").stdout)
    assert told["stream"] == "visits"
    assert [(each["rows"], each["batches"]) for each in told["samples"]] == [(600, 1)]
    assert [(each["kind"], each["at"]) for each in told["marks"]] == [("crash", at + 1)]


def test_a_stream_without_a_history(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("visits").prepare()
    shown = timeline(platform, "visits")
    assert shown.exit_code == 0
    assert "no history" in shown.stdout
    reviewed(shown.stderr)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("30m", NOW - 1_800_000),
        ("6h", NOW - 21_600_000),
        ("7d", NOW - KEPT_MS),
        ("99d", NOW - KEPT_MS),
        ("2026-09-21T13:00", 1_789_995_600_000),
        ("1999-01-01", NOW - KEPT_MS),
    ],
)
def test_since(text: str, moment: int) -> None:
    assert since_when(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "soon", "0h", "6", "6w", "-6h"])
def test_no_time(text: str) -> None:
    with pytest.raises(InvalidSpec, match="--since"):
        since_when(text, NOW)


def test_status_tells_health_and_what_the_advice_does_not(platform: Platform) -> None:
    home = platform.add("visits")
    platform.drive("visits", batch_id=41, input_rows=100)
    HistoryWriter(home).add(Sample(at=epoch_ms() - 60_000, batches=1, rows=1_000, refused=500))
    shown = platform.call("status", "visits")
    assert "rows were refused" in shown.stdout
    (told,) = json.loads(platform.call("status", "visits", "--json").stdout)
    assert (told["health"]["word"], told["health"]["rule"]) == ("degraded", "rows_refused")
    assert told["state"] == "RUNNING", "what there was before stays"
