"""A stream whose driver ends with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionizer.control.lease import read_lease
from sessionizer.control.records.process_records import read_launch
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.launching.local import kill


@pytest.fixture
def home(tmp_path: Path) -> Iterator[StreamHome]:
    found = StreamHome.of(tmp_path, "clicks")
    yield found
    for record in (read_launch(found), read_lease(found)):
        if record is not None and record.process is not None:
            kill(record.process)
