"""Records in object stores: what a lease needs of a store, asked of a server of each kind."""

from __future__ import annotations

import multiprocessing
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.lease import acquire, read_lease
from sessionizer.errors import LeaseHeld
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import record_names, store_at
from sessionizer.home.data_files import make_writable_control, publish_json
from support.stores.control_fixtures import OBJECT_STORES, home_with

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier
    from pathlib import Path

    from upath import UPath

    from sessionizer.home.stream_home import StreamHome

_FORK = multiprocessing.get_context("fork")
ON_S3 = pytest.mark.parametrize("control", ["s3"], indirect=True)
OTHERS = [pytest.param(kind, marks=pytest.mark.long) for kind in OBJECT_STORES if kind != "s3"]
IN_EACH = pytest.mark.parametrize("control", ["s3", *OTHERS], indirect=True)
ROUNDS = 10


def _contend(homes: list[StreamHome], uid: str, barrier: Barrier) -> None:
    for home in homes:
        barrier.wait(timeout=60)
        with suppress(LeaseHeld):
            acquire(home, uid).check()
    barrier.wait(timeout=60)  # the winners live until all is decided


@ON_S3
def test_of_two_contenders_one_has_the_lease(control: UPath, tmp_path: Path) -> None:
    homes = [home_with(control, tmp_path, f"round_{number}") for number in range(ROUNDS)]
    barrier = _FORK.Barrier(2)
    contenders = [_FORK.Process(target=_contend, args=(homes, uid, barrier)) for uid in ("a", "b")]
    for each in contenders:
        each.start()
    for each in contenders:
        each.join()
    assert [each.exitcode for each in contenders] == [0, 0]
    for home in homes:
        lease = read_lease(home)
        assert lease is not None
        assert lease.token == 1, "nobody took it from the other one"


@IN_EACH
def test_a_record_is_created_once_and_replaced_whole(control: UPath) -> None:
    make_writable_control([control / "leases"])
    record = store_at(control / "leases" / "lease.1.json")
    before = epoch_ms()
    assert record.create(b"mine")
    assert not record.create(b"yours")
    assert record.create(b"mine"), "as after an answer that was lost"
    assert record.read() == b"mine"
    assert abs(record.changed_at_ms() - before) < 60_000
    record.replace(b"longer than before", durable=True)
    record.replace(b"short", durable=False)
    assert record.read() == b"short"
    assert record_names(control / "leases") == ["lease.1.json"]
    record.remove()
    record.remove()
    assert not record.exists()
    assert record_names(control / "leases") == []
    with pytest.raises(FileNotFoundError):
        record.read()


@IN_EACH
def test_what_is_published_stays_as_it_is(control: UPath) -> None:
    """Claim a data root by two homes at once: the first one owns it."""
    publish_json(control / "owner.json", {"stream": "mine"})
    publish_json(control / "owner.json", {"stream": "yours"})
    assert b"mine" in (control / "owner.json").read_bytes()
    assert record_names(control) == ["owner.json"]
