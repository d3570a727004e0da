"""Records and logs of a stream without the values of erased people, and the proof that no file holds any."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from sessionizer.control.lease import read_lease
from sessionizer.erasing.decoded import RAW
from sessionizer.erasing.search import Occurrences, Wanted, search
from sessionizer.home.control_store import Store
from sessionizer.home.record_file import format_json
from sessionizer.home.roots import ControlPath, DataPath, uri_of
from sessionizer.home.stream_home import ANNOUNCED_TIMEOUTS, StreamHome
from sessionizer.launch.scratch import scratch_base, sweep_scratch

MARK: Final = b"erased"
"""Text in place of a value in a record or a log."""
_WITH_KEYS: Final = ("heartbeat.json", "history/", "lookups/", "proofs/")
"""Records that may name keys. In any other one the same text means something else, such as the number of a batch."""


def cross_out_records(home: StreamHome, values: Sequence[str]) -> Iterator[ControlPath]:
    """Replace the values in the records and logs of the stream, file by file. Yield each file that held one.

    The log of the driver that runs stays, because the driver writes on. The scratch of dead processes on this machine
    is removed as well. Raises OSError.
    """
    sweep_scratch(scratch_base())
    lease, wanted = read_lease(home), Wanted(values)
    live = None if lease is None or lease.uid is None else home.driver_log(lease.uid)
    for root in (home.control, home.logs):
        for found in search([root], values):
            file = root / found.file
            if not found.counts or found.decoded_by != RAW or file == live:
                continue
            if root == home.control and not found.file.startswith(_WITH_KEYS):
                continue
            content = Store(file).read()
            written = _cross_out_record(content, wanted) if file.suffix == ".json" else wanted.cross_out(content, MARK)
            if written != content:
                Store(file).replace(written, durable=False)
                yield file


def _cross_out_record(content: bytes, wanted: Wanted) -> bytes:
    """Replace values in the texts of a record. A number or a name of a field that is like one stays."""
    try:
        record = json.loads(content)
    except ValueError:
        return wanted.cross_out(content, MARK)
    crossed = _cross_out_texts(record, wanted)
    return content if crossed == record else format_json(crossed)


def _cross_out_texts(value: Any, wanted: Wanted) -> Any:  # noqa: ANN401  JSON
    match value:
        case str():
            return wanted.cross_out(value.encode(), MARK).decode()
        case list():
            return [_cross_out_texts(each, wanted) for each in value]
        case dict():
            return {name: _cross_out_texts(each, wanted) for name, each in value.items()}
        case _:
            return value


def find_left(home: StreamHome, values: Sequence[str], elsewhere: Iterable[DataPath]) -> Iterator[Occurrences]:
    """Search all that the stream has written in its roots, and ``elsewhere``.

    Yields the layers of files that hold a value, and those that cannot be read. Raises ValueError for an empty value.
    """
    roots = {uri_of(root): root for root in (home.root, home.control, home.data, *elsewhere)}
    outer = [root for place, root in roots.items() if not any(place.startswith(f"{other}/") for other in roots)]
    control = f"{uri_of(home.control)}/"
    for each in search(outer, values):
        place = f"{each.root}/{each.file}"
        name, found = place.removeprefix(control), each
        if name != place and not (name.startswith(_WITH_KEYS) or name.endswith(f"/{ANNOUNCED_TIMEOUTS}")):
            # a value of letters or digits may be a word of a record, such as a state or a batch
            others = {text: n for text, n in each.counts.items() if not (text.isdecimal() or text.isalpha())}
            found = replace(each, counts=others)
        if found.counts or found.unreadable:
            yield found
