"""A lease that its owner loses without noticing: it was so slow that another machine took it for dead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.control.lease import read_lease, write_lease
from sessionizer.control.records.process_records import Vacancy
from sessionizer.home.clock import epoch_ms

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome


def lose_lease(home: StreamHome) -> None:
    """It was another's, who has given it up by now: it is free again."""
    last = read_lease(home)
    assert last is not None
    taken = replace(last, token=last.token + 1, uid="elsewhere", vacancy=Vacancy.RELEASED, vacated_at=epoch_ms())
    assert write_lease(home, taken)
