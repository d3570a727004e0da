"""A running stream whose data are in S3, while the store accepts calls and answers none."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.records.driver_records import HEARTBEAT_FILE
from sessionizer.control.timeouts import STALE_AFTER_MS
from sessionizer.errors import StoreUnreachable
from sessionizer.home.clock import epoch_ms
from sessionizer.state.savepoints.listing import list_savepoints
from support.expected.landed import assert_as_defined
from support.processes.driver_process import DriverProcess, run_to_end
from support.stores.control_fixtures import new_folder
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.stores.object_stores import ObjectStoreServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

SILENT_S = 200.0
"""Longer than a supervisor waits for a beat. The driver looks at its tables once a minute."""


def test_a_driver_goes_on_and_a_reader_gives_up(
    tmp_path: Path,
    object_store_servers: Callable[[str], ObjectStoreServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = object_store_servers("s3")
    stage = Stage.set_up(tmp_path, clicks_spec(), data=f"{new_folder(server, monkeypatch)}/lake")
    files = write_click_files(tmp_path / "clicks", 6)
    clicks = sorted((tmp_path / "clicks").iterdir())

    def bring(some: list[Path]) -> None:
        for file in some:
            file.rename(stage.feed / file.name)

    bring(clicks[:2])
    with DriverProcess.start(stage, "live", until="stopped") as driver:
        driver.wait_for_line("batch 0")
        server.freeze()
        frozen_at = time.monotonic()
        bring(clicks[2:4])
        with pytest.raises(StoreUnreachable):
            list_savepoints(stage.stream_home.savepoints, epoch_ms())
        time.sleep(max(0.0, SILENT_S - (time.monotonic() - frozen_at)))
        beat = HEARTBEAT_FILE.of(stage.stream_home).read()
        assert beat is not None
        assert epoch_ms() - beat.at < STALE_AFTER_MS // 2
        server.thaw()
        bring(clicks[4:])
        assert not driver.ended
    run_to_end(stage, "last")
    assert_as_defined(stage, files)
