"""One driver per stream: races, kills, takeovers and fencing, with real processes."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.context import ForkProcess
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from sessionizer.control import lease as lease_ledger
from sessionizer.control.lease import Lease, LeaseWatch, acquire, fence, highest_token, read_lease, write_lease
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import (
    ExitOutcome,
    ExitRecord,
    Vacancy,
    new_lease,
    this_process,
    write_exit,
)
from sessionizer.errors import ControlUnreachable, InvalidSpec, LeaseHeld, LeaseLost, UnwritablePath
from sessionizer.home.clock import epoch_ms
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.roots import ControlPath
from sessionizer.home.stream_home import StreamHome
from support.expected.file_accesses import file_accesses
from support.places import known, mounted
from support.processes.ports import eventually
from support.stores.control_fixtures import HDFS, OBJECT_STORES, ON_A_PATH, PATH, home_with

_FORK = multiprocessing.get_context("fork")
RACERS = 4


@pytest.fixture
def home(control: ControlPath, tmp_path: Path) -> StreamHome:
    """The prepared home of a stream, with its control where the parameter says."""
    stream = home_with(control, tmp_path)
    stream.root.mkdir(parents=True)
    stream.prepare()
    return stream


def _race(homes: list[StreamHome], racer: int, barrier: Barrier, winners: SimpleQueue[tuple[int, int]]) -> None:
    for number, home in enumerate(homes):
        barrier.wait(timeout=60)
        try:
            acquire(home, f"racer-{racer}").check()
        except LeaseHeld:
            pass
        else:
            winners.put((number, racer))
    # The winners must live until the last round is over.
    barrier.wait(timeout=60)


def _run_all(racers: list[ForkProcess]) -> None:
    for process in racers:
        process.start()
    for process in racers:
        process.join()
    assert [process.exitcode for process in racers] == [0] * RACERS


def _leave_dead_holder(home: StreamHome) -> None:
    mine = this_process()
    dead = replace(mine, started=known(mine.started) - 1)
    assert write_lease(home, new_lease(1, "dead", dead, epoch_ms()))


@pytest.mark.parametrize(
    ("control", "rounds"),
    [
        *((PATH, 150), ("s3", 10)),  # a server of a test takes one request at a time
        *(pytest.param(store, 150, marks=pytest.mark.long) for store in (HDFS, *OBJECT_STORES)),
    ],
    indirect=["control"],
)
def test_of_several_that_start_together_exactly_one_wins(control: ControlPath, rounds: int, tmp_path: Path) -> None:
    homes = [home_with(control, tmp_path, f"round_{number}") for number in range(rounds)]
    for number, home in enumerate(homes):
        Store(home.leases).make_folder()
        if number % 2:
            _leave_dead_holder(home)
    barrier, winners = _FORK.Barrier(RACERS), _FORK.SimpleQueue()
    racers = [_FORK.Process(target=_race, args=(homes, racer, barrier, winners)) for racer in range(RACERS)]
    _run_all(racers)
    won = []
    while not winners.empty():
        won.append(winners.get()[0])
    assert sorted(won) == list(range(rounds))
    tokens = [highest_token(home) for home in homes]
    assert tokens == [1 + number % 2 for number in range(rounds)], "nobody took it from another one"


def _take_turns(home: StreamHome, racer: int, turns: int) -> None:
    done = 0
    while done < turns:
        try:
            lease = acquire(home, f"racer-{racer}")
        except LeaseHeld:
            continue
        critical = home.root / "critical"
        critical.open("x").close()  # below the home's folder on this machine: it fails where two are in here
        lease.check()
        critical.unlink()
        lease.release()
        done += 1


def test_holders_never_overlap_while_tokens_are_pruned(home: StreamHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_ledger, "KEPT_TOKENS", 1)
    turns = 60 if home.control_root is None else 12
    racers = [_FORK.Process(target=_take_turns, args=(home, racer, turns)) for racer in range(RACERS)]
    _run_all(racers)
    assert highest_token(home) == 2 * turns * RACERS


def _hold(home: StreamHome, uid: str) -> None:
    acquire(home, uid)
    time.sleep(60)


def _holder(home: StreamHome, uid: str) -> ForkProcess:
    process = _FORK.Process(target=_hold, args=(home, uid), daemon=True)
    process.start()
    eventually(lambda: (lease := read_lease(home)) is not None and lease.pid == process.pid)
    return process


def test_a_killed_holder_is_taken_over_at_once_even_as_a_zombie(home: StreamHome) -> None:
    process = _holder(home, "first")
    with pytest.raises(LeaseHeld) as caught:
        acquire(home, "second")
    assert (caught.value.uid, caught.value.pid) == ("first", process.pid)
    process.kill()
    os.waitid(os.P_PID, known(process.pid), os.WEXITED | os.WNOWAIT)
    lease = acquire(home, "second")
    assert lease.token == 2
    lease.check()
    process.join()


def test_a_hung_holder_is_not_taken_over_however_silent(home: StreamHome) -> None:
    process = _holder(home, "hung")
    os.kill(known(process.pid), signal.SIGSTOP)
    with pytest.raises(LeaseHeld):
        acquire(home, "second", takeover_after_ms=0)
    assert fence(home, "hung") == 2
    with pytest.raises(LeaseHeld):
        acquire(home, "second")
    process.kill()
    process.join()
    assert acquire(home, "second").token == 3


def test_fencing_takes_the_lease_from_its_owner(home: StreamHome) -> None:
    lease = acquire(home, "first")
    lease.check()
    assert fence(home, "other") is None
    lease.check()
    assert fence(home) == 2
    with pytest.raises(LeaseLost) as caught:
        lease.check()
    assert (caught.value.token, caught.value.newest) == (1, 2)
    assert fence(home) == 2
    record = known(read_lease(home))
    assert (record.uid, record.vacancy, record.process) == ("first", Vacancy.FENCED, this_process())


def test_there_is_nobody_to_fence_before_the_first_start(home: StreamHome) -> None:
    assert fence(home) is None
    assert highest_token(home) == 0


def test_release_frees_and_may_be_repeated(home: StreamHome) -> None:
    first = acquire(home, "first")
    first.release()
    first.release()
    second = acquire(home, "second")
    first.release()
    second.check()
    assert second.token == 3


@ON_A_PATH
def test_release_outlives_a_full_disk(home: StreamHome) -> None:
    lease = acquire(home, "first")
    home.leases.joinpath("00000002.json").mkdir()
    lease.release()


def test_an_exit_record_frees_the_lease_of_a_process_that_lingers(home: StreamHome) -> None:
    lease = acquire(home, "first")
    write_exit(home, ExitRecord("first", epoch_ms(), ExitOutcome.STOPPED))
    assert acquire(home, "second").token == lease.token + 1


def test_an_exit_record_of_an_earlier_attempt_frees_nothing(home: StreamHome) -> None:
    write_exit(home, ExitRecord("first", epoch_ms() - 1_000, ExitOutcome.FAILED))
    acquire(home, "first")
    with pytest.raises(LeaseHeld):
        acquire(home, "second")


def _held_elsewhere(home: StreamHome, acquired_ms_ago: int) -> None:
    assert write_lease(
        home, new_lease(1, "far", replace(this_process(), host="elsewhere"), epoch_ms() - acquired_ms_ago)
    )


def _beat(home: StreamHome, uid: str, at: int) -> None:
    HEARTBEAT_FILE.of(home).write(Heartbeat(uid, at, at, Phase.RUNNING))


@contextmanager
def _beating(home: StreamHome, uid: str, clock_ahead_ms: int = 0) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.02):
            _beat(home, uid, epoch_ms() + clock_ahead_ms)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("clock_ahead_ms", [0, -300_000, 300_000, -3_600_000])
def test_a_holder_elsewhere_lives_while_it_beats_whatever_its_clock_says(home: StreamHome, clock_ahead_ms: int) -> None:
    _held_elsewhere(home, 3_600_000)
    with _beating(home, "far", clock_ahead_ms), pytest.raises(LeaseHeld):
        acquire(home, "near", takeover_after_ms=10_000)
    started = time.monotonic()
    assert acquire(home, "near", takeover_after_ms=300).token == 2
    assert time.monotonic() - started >= 0.3, "its silence was watched"


def test_a_holder_elsewhere_that_has_just_started_is_watched_as_well(home: StreamHome) -> None:
    _beat(home, "long_gone", epoch_ms() - 3_600_000)
    _held_elsewhere(home, 1_000)
    with _beating(home, "far"), pytest.raises(LeaseHeld):
        acquire(home, "near", takeover_after_ms=10_000)


def test_the_heartbeat_of_another_driver_keeps_nobody_alive(home: StreamHome) -> None:
    _held_elsewhere(home, 3_600_000)
    with _beating(home, "other"):
        assert acquire(home, "near", takeover_after_ms=300).token == 2


def test_a_holder_elsewhere_that_ends_while_it_is_watched_is_followed_at_once(home: StreamHome) -> None:
    _held_elsewhere(home, 3_600_000)
    end = threading.Timer(0.1, lambda: write_exit(home, ExitRecord("far", epoch_ms(), ExitOutcome.STOPPED)))
    end.start()
    assert acquire(home, "near", takeover_after_ms=600_000).token == 2
    end.join()


def test_a_fenced_holder_elsewhere_is_the_business_of_who_fenced_it(home: StreamHome) -> None:
    _held_elsewhere(home, 0)
    fence(home, "far")
    assert acquire(home, "near").token == 3


@ON_A_PATH
def test_a_damaged_lease_is_held_by_somebody_until_silence(home: StreamHome) -> None:
    path = home.leases / "00000007.json"
    path.write_text('{"token": ')
    with _beating(home, "whoever"), pytest.raises(LeaseHeld, match="unknown process"):
        acquire(home, "second", takeover_after_ms=10_000)
    assert acquire(home, "second", takeover_after_ms=300).token == 8


@ON_A_PATH
@pytest.mark.parametrize("made_anew", [False, True])
def test_a_control_directory_that_was_removed_took_the_lease_with_it(home: StreamHome, *, made_anew: bool) -> None:
    lease = acquire(home, "first")
    for path in home.leases.iterdir():
        path.unlink()
    home.leases.rmdir()
    if made_anew:
        home.prepare()
        assert acquire(home, "second").token == lease.token
    with pytest.raises(LeaseLost, match="record is gone"):
        lease.check()


def _spoil(home: StreamHome) -> None:
    """As over a network: the file is there, and cannot be read just now."""
    (home.leases / "00000001.json").rename(home.root / "aside")
    (home.leases / "00000001.json").mkdir()


def _mend(home: StreamHome) -> None:
    (home.leases / "00000001.json").rmdir()
    (home.root / "aside").rename(mounted(home.leases / "00000001.json"))


@ON_A_PATH
def test_a_lease_that_cannot_be_read_for_a_moment_is_not_lost(home: StreamHome) -> None:
    lease = acquire(home, "first")
    _spoil(home)
    with pytest.raises(ControlUnreachable):
        lease.check()
    now = [0.0]
    watch = LeaseWatch(lease, limit_s=60, clock=lambda: now[0])
    now[0] = 60.0
    assert not watch.look()
    _mend(home)
    assert watch.look()
    watch.require()
    _spoil(home)
    now[0] = 120.0
    assert not watch.look()
    now[0] = 120.1
    with pytest.raises(ControlUnreachable):
        watch.look()
    with pytest.raises(ControlUnreachable):
        watch.require()
    lease.release()


def _drive_from_elsewhere(home: StreamHome) -> None:
    """Beats and checks its lease, as a driver of another machine; its exit code tells how that ended."""
    record = new_lease(1, "far", replace(this_process(), host="elsewhere"), epoch_ms())
    assert write_lease(home, record)
    lease = Lease(home, record)
    while True:
        try:
            lease.check()
        except LeaseLost as lost:
            os._exit(40 + lost.newest)
        _beat(home, "far", epoch_ms())


def test_an_owner_that_was_paused_finds_its_lease_lost(home: StreamHome) -> None:
    owner = _FORK.Process(target=_drive_from_elsewhere, args=(home,), daemon=True)
    owner.start()
    eventually(lambda: HEARTBEAT_FILE.of(home).read() is not None or not owner.is_alive(), 60)
    assert owner.is_alive()
    with pytest.raises(LeaseHeld):
        acquire(home, "near", takeover_after_ms=10_000)
    os.kill(known(owner.pid), signal.SIGSTOP)
    os.waitid(os.P_PID, known(owner.pid), os.WSTOPPED | os.WNOWAIT)  # it may be in the middle of a beat
    assert acquire(home, "near", takeover_after_ms=2_000).token == 2
    os.kill(known(owner.pid), signal.SIGCONT)
    owner.join(timeout=120)
    assert owner.exitcode == 42, "it learned of token 2 before it could do anything"


def test_a_lost_lease_is_lost_at_once_whoever_watches(home: StreamHome) -> None:
    watch = LeaseWatch(acquire(home, "first"))
    fence(home)
    with pytest.raises(LeaseLost):
        watch.look()
    with pytest.raises(LeaseLost):
        watch.require()


def test_only_the_last_tokens_are_kept(home: StreamHome) -> None:
    for _ in range(20):
        acquire(home, "again").release()
    assert highest_token(home) == 40
    assert len(record_names(home.leases)) == lease_ledger.KEPT_TOKENS


def test_a_token_that_was_overtaken_and_pruned_is_not_given_out_again(home: StreamHome) -> None:
    for _ in range(20):
        acquire(home, "again").release()
    assert not write_lease(home, new_lease(3, "sleepy", this_process(), epoch_ms()))
    assert "00000003.json" not in record_names(home.leases)


def test_a_lease_needs_a_prepared_home(tmp_path: Path) -> None:
    with pytest.raises(UnwritablePath):
        acquire(StreamHome.of(tmp_path, "clicks"), "first")


@ON_A_PATH
@pytest.mark.parametrize("uid", ["", "../x", "a/b", "a\n", ".hidden"])
def test_a_uid_must_fit_a_file_name(home: StreamHome, uid: str) -> None:
    with pytest.raises(InvalidSpec, match="uid"):
        acquire(home, uid)


@ON_A_PATH
def test_a_check_is_one_listing_and_one_read(home: StreamHome) -> None:
    """It comes before each write to a sink."""
    for uid in ("first", "second"):
        lease = acquire(home, uid)
        lease.release()
    lease = acquire(home, "third")
    with file_accesses() as seen:
        lease.check()
    assert seen == [f"list {home.leases}", f"open {home.leases / f'{lease.token:08d}.json'}"]
