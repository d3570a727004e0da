"""Records and logs of a stream without the values of erased people, and the proof that no file holds any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sessionizer.control.lease import read_lease
from sessionizer.erasing.decoded import RAW
from sessionizer.erasing.search import Occurrences, Wanted, search
from sessionizer.home.control_store import Store
from sessionizer.home.roots import ControlPath, DataPath, uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.scratch import scratch_base, sweep_scratch

MARK: Final = b"erased"
"""Text in place of a value in a record or a log."""


def cross_out_records(home: StreamHome, values: Sequence[str]) -> Iterator[ControlPath]:
    """Replace the values in the records and logs of the stream, file by file. Yield each file that held one.

    The log of the driver that runs stays, because the driver writes on. The scratch of dead processes on this machine
    is removed as well. Raises OSError.
    """
    sweep_scratch(scratch_base())
    lease, wanted = read_lease(home), Wanted(values)
    live = None if lease is None or lease.uid is None else home.driver_log(lease.uid)
    for root in _roots_of_records(home):
        for found in search([root], values):
            file = root / found.file
            if found.counts and found.decoded_by == RAW and file != live:
                Store(file).replace(wanted.cross_out(Store(file).read(), MARK), durable=False)
                yield file


def find_left(home: StreamHome, values: Sequence[str], elsewhere: Iterable[DataPath]) -> Iterator[Occurrences]:
    """Search all that the stream has written in its roots, and ``elsewhere``.

    Yields the layers of files that hold a value, and those that cannot be read. Raises ValueError for an empty value.
    """
    roots = {uri_of(root): root for root in (home.root, home.control, home.data, *elsewhere)}
    outer = [root for place, root in roots.items() if not any(place.startswith(f"{other}/") for other in roots)]
    yield from (each for each in search(outer, values) if each.counts or each.unreadable)


def _roots_of_records(home: StreamHome) -> list[ControlPath]:
    return [home.control, *([home.own] if home.own != home.control else []), home.logs]
