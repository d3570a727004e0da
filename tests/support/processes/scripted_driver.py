"""A driver without Spark: lease, heartbeats, stop marker and exit record are the real ones; only the work is missing.

The file `behaviour` in the platform's home says what it does: `steady` (if there is none), `crash`, `refuse` (a
terminal error), `stumble` (a transient one), `fail` (one of neither kind), `away` (its source does not answer), `gone`
(files of its source are gone), `mute` (starts up for ever), `deaf` (does not hear the stop marker), `linger` (fails and
does not end) or `stat PATH` (asks for a file after its first batch).

Each batch adds a line to `journal`, its only sink: the fencing token under which it was written.
"""

import argparse
import os
import socket
import sys
import time
from pathlib import Path

from sessionizer.control.lease import Lease, acquire
from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, stop_requested, write_exit
from sessionizer.errors import SessionizerError, SourceFilesGone, SourceUnreachable, TerminalError, TransientError
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome

JOURNAL = "journal"
FAILURES = {
    "refuse": TerminalError("the mapping names a column that is not there"),
    "stumble": TransientError("the catalog is being moved"),
    "fail": SessionizerError("nobody has foreseen this"),
    "linger": SessionizerError("nobody has foreseen this"),
    "gone": SourceFilesGone("clicks", 3, ("file:/feed/a.json",)),
    "away": SourceUnreachable("broker:9092", "refused"),
}


def main() -> int:
    arguments = parse(sys.argv[1:])
    if arguments.verb == "report":
        return 0
    pretend_to_be_elsewhere()
    tell_yarn()
    home = StreamHome.of(Path(arguments.home), arguments.stream)
    home.prepare()
    try:
        drive(home, arguments.uid, acquire(home, arguments.uid), behaviour(Path(arguments.home)))
    except SessionizerError as error:
        outcome = ExitOutcome.LEASE_LOST if type(error).__name__ == "LeaseLost" else ExitOutcome.FAILED
        leave(home, arguments.uid, outcome, error)
        if behaviour(Path(arguments.home)) == "linger":
            time.sleep(600)
        return error.exit_code
    leave(home, arguments.uid, ExitOutcome.STOPPED)
    return 0


def pretend_to_be_elsewhere() -> None:
    """A driver in a cluster is on a host whose processes nobody here can see."""
    host = os.environ.get("PRETENDED_HOST")
    if host is not None:
        socket.gethostname = lambda: host


def tell_yarn() -> None:
    if "CONTAINER_ID" in os.environ:
        from pyspark import SparkConf, SparkContext

        sys.stdout.write("I am the driver\n")
        SparkContext(conf=SparkConf().set("spark.dynamicAllocation.enabled", "true"))


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["run", "report"])
    parser.add_argument("stream")
    for option in ("--home", "--streams"):
        parser.add_argument(option, required=True)
    parser.add_argument("--data")
    parser.add_argument("--uid")
    return parser.parse_args(words)


def behaviour(platform_home: Path) -> str:
    file = platform_home / "behaviour"
    return file.read_text() if file.exists() else "steady"


def drive(home: StreamHome, uid: str, lease: Lease, how: str) -> None:
    started = epoch_ms()
    beat(home, uid, started, None)
    if how in FAILURES:
        raise FAILURES[how]
    if how == "crash":
        sys.stderr.write("opening the broker with password=hunter2\nit is beyond me\n")
        sys.stderr.flush()
        os._exit(137)
    batch = 0
    while how == "deaf" or not stop_requested(home, uid):
        time.sleep(0.3)
        lease.check()
        if how != "mute":
            write_batch(home, lease)
            beat(home, uid, started, batch)
            batch += 1
        if how.startswith("stat "):
            Path(how.removeprefix("stat ")).exists()


def write_batch(home: StreamHome, lease: Lease) -> None:
    with (home.root / JOURNAL).open("a") as journal:
        journal.write(f"{lease.token}\n")


def beat(home: StreamHome, uid: str, started: int, batch: int | None) -> None:
    rows = 0 if batch is None else (batch + 1) * 7
    told = Heartbeat(
        uid=uid, at=epoch_ms(), started_at=started, phase=Phase.STARTING if batch is None else Phase.RUNNING,
        batch_id=batch, watermark_ms=started, lineage="of-the-script", spark_ui="http://127.0.0.1:4040",
        sessions_version=batch, sessions_rows=rows,
    )  # fmt: skip
    HEARTBEAT_FILE.of(home).write(told)


def leave(home: StreamHome, uid: str, outcome: ExitOutcome, error: SessionizerError | None = None) -> None:
    name, message = (type(error).__name__, str(error)) if error else (None, None)
    terminal = isinstance(error, TerminalError)
    write_exit(home, ExitRecord(uid, epoch_ms(), outcome, terminal=terminal, error_type=name, message=message))


if __name__ == "__main__":
    sys.exit(main())
