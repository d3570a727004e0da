"""``sessionizer bundle``: one file with all that helps, and no credential."""

import json
import stat
import tarfile
from pathlib import Path

import pytest

from sessionizer.control.history.files import HistoryWriter, Mark, MarkKind, add_mark
from sessionizer.control.history.sample import Sample
from sessionizer.errors import InvalidSpec, UnknownStream
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.active import start_lineage
from support.processes.fabricated_platform import Platform

SECRET = "hunter2"  # noqa: S105 - of the test


def contents_of(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        found = {}
        for entry in archive.getmembers():
            read = archive.extractfile(entry)
            assert read is not None
            found[entry.name.removeprefix("visits-bundle/")] = read.read().decode()
    return found


def test_it_has_records_history_and_logs_without_credentials(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SESSIONIZER_NOTIFIER_ARGUMENTS", "SPARK_OF_OUR_SITE"):
        monkeypatch.setenv(name, f'{{"to": "{SECRET}"}}')
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "3g")
    home = platform.add("visits")
    platform.drive("visits", batch_id=7, warning=f"password={SECRET}")
    start_lineage(home)
    HistoryWriter(home).add(Sample(at=epoch_ms(), batches=1, rows=5))
    add_mark(home, Mark(kind=MarkKind.ALERT, text="waiting"))
    (home.logs / "driver.driver-1.log").write_text(f"a line\nsasl.jaas.config={SECRET}\n")
    (tmp_path / "passwords").write_text(SECRET)
    (home.logs / "driver.other.log").symlink_to(tmp_path / "passwords")
    file = tmp_path / "bundle.tar.gz"
    shown = platform.call("bundle", "visits", "--to", str(file))
    assert shown.exit_code == 0
    found = contents_of(file)
    assert {"contents.json", "status.json", "machine.json", "spec/visits.yaml"} <= set(found)
    assert "control/heartbeat.json" in found
    assert "control/lineage.json" in found
    assert any(name.startswith("control/history/mark.") for name in found)
    assert any(name.startswith("control/history/2") for name in found)
    assert found["logs/driver.driver-1.log"].startswith("a line")
    assert "logs/driver.other.log" not in found, "a link may lead to any file"
    assert not [name for name, text in found.items() if SECRET in text]
    assert json.loads(found["status.json"])["stream"] == "visits"
    named = json.loads(found["machine.json"])["settings"]
    assert named["SPARK_DRIVER_MEMORY"] == "3g"
    assert {"SESSIONIZER_NOTIFIER_ARGUMENTS", "SPARK_OF_OUR_SITE"} <= set(named)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_part_that_cannot_be_read_is_named(platform: Platform, tmp_path: Path) -> None:
    home = platform.add("visits")
    platform.drive("visits")
    (home.control / "lineage.json").write_text("{")
    file = tmp_path / "bundle.tar.gz"
    assert platform.call("bundle", "visits", "--to", str(file)).exit_code == 0
    found = contents_of(file)
    assert "checkpoint.json" in json.loads(found["contents.json"])["missing"]
    assert found["control/lineage.json"] == "{", "what is broken is what the reader needs"


def test_a_broken_spec_and_a_stream_without_one(platform: Platform, tmp_path: Path) -> None:
    platform.add("visits", "name: visits\n")
    assert platform.call("bundle", "visits", "--to", str(tmp_path / "a.tar.gz")).exit_code == 0
    platform.drive("visits")
    (platform.streams / "visits.yaml").unlink()
    assert platform.call("bundle", "visits", "--to", str(tmp_path / "b.tar.gz")).exit_code == 0
    assert "control/heartbeat.json" in contents_of(tmp_path / "b.tar.gz")


def test_nothing_is_overwritten(platform: Platform, tmp_path: Path) -> None:
    platform.add("visits")
    file = tmp_path / "bundle.tar.gz"
    file.write_text("mine")
    assert isinstance(platform.call("bundle", "visits", "--to", str(file)).exception, InvalidSpec)
    assert file.read_text() == "mine"


def test_no_such_stream(platform: Platform, tmp_path: Path) -> None:
    answer = platform.call("bundle", "nothing", "--to", str(tmp_path / "bundle.tar.gz"))
    assert isinstance(answer.exception, UnknownStream)
    assert not (tmp_path / "bundle.tar.gz").exists()
