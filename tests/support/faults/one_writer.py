"""The promise that matters most: of the drivers of a stream, never two may write."""

from itertools import groupby
from threading import Event, Thread
from typing import Self

from sessionizer.control.lease import read_lease
from sessionizer.control.records.process_records import EXIT_FILE, ProcessIdentity, is_alive
from sessionizer.home.stream_home import StreamHome
from support.processes.scripted_driver import JOURNAL


class OneWriterWatch:
    """Looks all the time whether two drivers that were ever given the lease live and have not ended.

    That is more than the token promises: it keeps a fenced driver from the tables, but not from the checkpoint.
    """

    def __init__(self, home: StreamHome) -> None:
        self._home = home
        self._owners: dict[str, ProcessIdentity] = {}
        self._together: list[set[str]] = []
        self._looks = 0
        self._enough = Event()
        self._thread = Thread(target=self._watch, name=f"one-writer-{home.name}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()

    def assert_kept(self) -> None:
        assert not self._together, f"at work together: {self._together}"
        assert self._owners, f"no driver was seen in {self._looks} looks"
        assert_written_in_turn(self._home)

    def _watch(self) -> None:
        while not self._enough.wait(0.05):
            self._look()

    def _look(self) -> None:
        self._looks += 1
        # Whoever was given the lease after this line is not counted before the next look; who is counted had it
        # before those that are looked at from here on.
        lease = read_lease(self._home)
        if lease is not None and lease.uid is not None and lease.process is not None:
            self._owners[lease.uid] = lease.process
        at_work = {uid for uid, process in self._owners.items() if self._is_at_work(uid, process)}
        if len(at_work) > 1:
            self._together.append(at_work)

    def _is_at_work(self, uid: str, process: ProcessIdentity) -> bool:
        return bool(is_alive(process)) and EXIT_FILE.of(self._home, uid).read() is None


def assert_written_in_turn(home: StreamHome) -> None:
    """No batch was written under a token after one of a later token: also what no look has caught."""
    tokens = [int(line) for line in (home.root / JOURNAL).read_text().splitlines()]
    turns = [token for token, _ in groupby(tokens)]
    assert turns == sorted(set(turns)), turns
