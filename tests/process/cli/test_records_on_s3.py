"""Commands and the page, for a stream whose records are in S3: timeline, bundle and the data of the page."""

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.control.history.files import HistoryWriter, Mark, MarkKind, add_mark
from sessionizer.control.history.sample import SAMPLE_MS, Sample
from sessionizer.home.clock import epoch_ms
from sessionizer.home.roots import CONTROL_VARIABLE, data_root
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from support.pages.page_alone import ENTERED, ask
from support.places import known
from support.processes.fabricated_platform import Platform


@pytest.fixture
def clicks(platform: Platform, s3_folder: str, monkeypatch: pytest.MonkeyPatch) -> StreamHome:
    """A stream with a driver, a lineage, a batch and three marks, whose records and data are in S3."""
    monkeypatch.setenv(CONTROL_VARIABLE, f"{s3_folder}/control")
    platform.add("clicks")
    _, home = platform.drive("clicks", batch_id=7, rows_per_second=12.5)
    home.prepare_own()
    (home.logs / "driver.driver-1.log").write_text("a line\n")
    start_lineage(replace(home, data_root=data_root(f"{s3_folder}/lake", platform.home)))
    now = epoch_ms()
    writer = HistoryWriter(home)
    writer.add(Sample(at=now - 2 * SAMPLE_MS, batches=1, rows=600, batch_ms=500))
    writer.flush(now)
    for kind in (MarkKind.START, MarkKind.CRASH):
        add_mark(home, Mark(at=now - SAMPLE_MS, kind=kind, uid="driver-1"))
    add_mark(home, Mark(at=now - SAMPLE_MS, kind=MarkKind.SAVEPOINT, savepoint="s1"))
    return home


def timeline(platform: Platform, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["timeline", *arguments, "--home", str(platform.home)])


def test_timeline(platform: Platform, clicks: StreamHome) -> None:
    for since in ("1h", "7d"):
        told = json.loads(timeline(platform, clicks.name, "--since", since, "--json").stdout)
        assert [sample["rows"] for sample in told["samples"]] == [600]
        assert {mark["kind"] for mark in told["marks"]} == {"start", "crash", "savepoint"}


def test_bundle(platform: Platform, clicks: StreamHome, tmp_path: Path) -> None:
    shown = platform.call("bundle", clicks.name, "--to", str(tmp_path / "bundle.tar.gz"))
    assert shown.exit_code == 0
    with tarfile.open(tmp_path / "bundle.tar.gz") as archive:
        names = {name.removeprefix("clicks-bundle/") for name in archive.getnames()}
        assert json.load(known(archive.extractfile("clicks-bundle/contents.json")))["missing"] == {}
    records = {name for name in names if name.startswith("control/")}
    assert {"control/heartbeat.json", "control/lineage.json"} <= records
    assert [name.rpartition("/")[0] for name in records if "mark." in name] == ["control/history"] * 3
    assert any(name.startswith("control/lineages/") for name in records)
    assert any(name.startswith("control/leases/") for name in records)
    assert "logs/driver.driver-1.log" in names


def test_page(platform: Platform, clicks: StreamHome) -> None:
    (row,) = ask(platform, "/api/fleet", headers=ENTERED).json()["streams"]
    assert (row["stream"], row["state"], row["rate"]) == ("clicks", "RUNNING", 12.5)
    told = ask(platform, f"/api/streams/{clicks.name}.supervise?span=3600000", headers=ENTERED).json()
    (point,) = [dict(zip(told["history"]["fields"], values, strict=True)) for values in told["history"]["rows"]]
    assert point["rows"] == 600
    assert {mark["kind"] for mark in told["marks"]} == {"start", "crash", "savepoint"}
    assert [mark["savepoint"] for mark in told["savepoints"]] == ["s1"], "it can be restored"
