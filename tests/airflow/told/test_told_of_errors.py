"""From what a real driver refuses before Spark starts, or a supervisor cannot do, to the words of the notifier."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from sessionizer.causes.table import CAUSES
from sessionizer.checkpoint.log_entries import commit_log, offset_log
from sessionizer.control.records.process_records import EXIT_FILE
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import RetryEffect
from sessionizer.home.home_identity import HomeIdentity, identity_file
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import begin_drain, claim_data, end_drain, start_lineage
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.fingerprint import (
    CHECKPOINT_FILE,
    RELEASE,
    SPARK,
    Fingerprint,
    present_fingerprint,
    write_fingerprint,
)
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes, write_lineage_spec
from sessionizer.stream_spec.spec_folder import read_spec_file
from sessionizer_airflow.launching.spark_submit import DriverCall
from sessionizer_airflow.supervision.decide import Adopt, Wait
from support.expected.driver_statuses import launched, recorded, works
from support.expected.told_causes import check_alert, check_record, made
from support.faults.dead_mounts import mount_without_server
from support.faults.small_disk import fill
from support.fixtures.supervisor import scripted_command
from support.places import known, mounted, opened
from support.processes.fabricated_platform import SPEC, make_canary
from support.processes.file_notifier import settle_and_tell, settle_until
from support.processes.watched_stream import WatchedStream, real_driver
from support.streams.drawn_logs import drawn_cases
from support.verbs.begun_restore import begun_restore, write_operation

KAFKA_AWAY = SPEC.format(name="clicks").replace(
    "format: files\n  path: in", "format: kafka\n  bootstrap_servers: 127.0.0.1:1\n  topic: clicks"
)
TRIED = 2


@dataclass(frozen=True)
class Refusal:
    """A stream that is so `arranged` is refused for `cause`; the text `names` where to look."""

    cause: str
    names: str
    arranged: Callable[[WatchedStream], object]
    command: Callable[[DriverCall], list[str]] = real_driver


def spec_of(text: str) -> Callable[[WatchedStream], object]:
    return lambda watched: watched.platform.add("clicks", text)


def no_spec(watched: WatchedStream) -> None:
    watched.platform.add("visits")


def two_specs(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    (watched.streams / "clicks.yml").write_text(SPEC.format(name="clicks"))


def drained_before(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    lineage = start_lineage(watched.home)
    begin_drain(watched.home, lineage)
    end_drain(watched.home, lineage)


def made_by_another_release(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    file = CHECKPOINT_FILE.of(watched.home, start_lineage(watched.home)).path
    file.write_text(json.dumps({**json.loads(file.read_text()), "checkpoint_format": 99}))


def made_by_another_engine(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    now = present_fingerprint()
    versions = {**now.versions, SPARK: "4.1.9"}
    write_fingerprint(watched.home, start_lineage(watched.home), Fingerprint(now.code, versions))


def made_by_a_release_before(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    versions = {**present_fingerprint().versions, RELEASE: "0.0.9"}
    write_fingerprint(watched.home, start_lineage(watched.home), Fingerprint("other", versions))


def lineage_damaged(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    start_lineage(watched.home)
    watched.home.lineage_record.write_text("{")


def restore_cut_short(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    write_operation(watched.home, begun_restore())


def canary_failed(watched: WatchedStream) -> None:
    tried(watched, CanaryTerms())


def canary_failed_by_one_who_goes_back(watched: WatchedStream) -> None:
    tried(watched, CanaryTerms(goes_back=True))


def tried(watched: WatchedStream, terms: CanaryTerms) -> None:
    make_canary(watched.platform.add("clicks"), terms, "one two three")


def desired_damaged(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    (watched.home.control / "desired.json").write_text("{")


def no_folder_of_logs(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    watched.home.logs.rmdir()
    watched.home.logs.touch()


def begun(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    start_lineage(watched.home)


def at_another_data_root(call: DriverCall) -> list[str]:
    return ["env", f"SESSIONIZER_DATA={call.folders.home / 'elsewhere'}", *real_driver(call)]


def at_a_data_root_outside(call: DriverCall) -> list[str]:
    return ["env", f"SESSIONIZER_DATA={call.folders.home}-data", *real_driver(call)]


def data_of_another_home(watched: WatchedStream) -> None:
    """Another platform began the stream in the data root that this one is given."""
    watched.platform.add("clicks")
    here = watched.platform.home
    other = StreamHome.of(here / "other", "clicks", here / "elsewhere")
    for made_there in (other.prepare, other.prepare_data):
        made_there()
    claim_data(other)


def wrote_rows(home: StreamHome, batch_id: int) -> str:
    lineage = start_lineage(home)
    BatchLog(home.lineage(lineage).batches).note_rows(batch_id, ["sessions"])
    return lineage


def checkpoint_away(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    lineage, spec = wrote_rows(watched.home, 0), read_spec_file(watched.streams, "clicks").required()
    write_lineage_spec(watched.home, lineage, new_record(watched.home, spec))
    TYPES_FILE.of(watched.home, lineage).write(KeptTypes("event_time"))


def has_batch(home: StreamHome, lineage: str, begun: int, in_table: int) -> None:
    checkpoint, log = mounted(home.checkpoint(lineage)), mounted(home.table("sessions")) / "_delta_log"
    for folder in (offset_log(checkpoint), commit_log(checkpoint), log):
        mounted(folder).mkdir(parents=True)
    for batches in (offset_log(checkpoint), commit_log(checkpoint)):
        opened(batches / str(begun)).write_text("")
    (log / f"{0:020d}.json").write_text(json.dumps({"txn": {"appId": lineage, "version": in_table}}))


def table_ahead(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    (watched.platform.home / "in").mkdir()
    has_batch(watched.home, wrote_rows(watched.home, 5), begun=5, in_table=9)


def table_behind(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    (watched.platform.home / "in").mkdir()
    has_batch(watched.home, wrote_rows(watched.home, 5), begun=5, in_table=3)


def home_copied(watched: WatchedStream) -> None:
    watched.platform.add("clicks")
    identity = HomeIdentity("5d1c0f3e9a7b2468", "/srv/first", "another-machine")
    identity_file(watched.home.control_base).write(identity)


def behaves(how: str) -> Callable[[WatchedStream], object]:
    def arranged(watched: WatchedStream) -> None:
        watched.platform.add("clicks")
        (watched.platform.home / "behaviour").write_text(how)

    return arranged


REFUSALS = {
    "bad spec": Refusal("InvalidSpec", "source is missing", spec_of("name: clicks\n")),
    "no spec": Refusal("UnknownStream", "visits", no_spec),
    "two specs": Refusal("DuplicateStream", "clicks.yml", two_specs),
    "broker away": Refusal("SourceUnreachable", "127.0.0.1:1", spec_of(KAFKA_AWAY)),
    "drained": Refusal("StreamDrained", "every session is closed", drained_before),
    "made by another release": Refusal("UnreadableLineage", "has format 99", made_by_another_release),
    "made by another engine": Refusal("EngineChanged", "was made by spark 4.1.9", made_by_another_engine),
    "an upgrade that waits": Refusal("UpgradeWaits", "runs by release 0.0.9", made_by_a_release_before),
    "a restore that was cut short": Refusal("OperationPending", "'clicks' to nightly", restore_cut_short),
    "a failed canary": Refusal("LineageUnfit", "3 of its drivers ended before", canary_failed),
    "a failed canary that is left": Refusal("LineageLeft", "rolls back to lineage", canary_failed_by_one_who_goes_back),
    "another data root": Refusal("DataElsewhere", "elsewhere", begun, at_another_data_root),
    "data of another home": Refusal("DataOwned", "/other on ", data_of_another_home, at_another_data_root),
    "a home that was copied": Refusal(
        "HomeCopied", "/srv/first on another-machine", home_copied, at_a_data_root_outside
    ),
    "a checkpoint that is away": Refusal("DataAway", "the checkpoint of lineage", checkpoint_away),
    "a state that is too old": Refusal("StateBehindTables", "older than its tables", table_ahead),
    "rows that are missing": Refusal("RowsMissing", "wrote batch 5 there", table_behind),
    "lineage.json damaged": Refusal("DamagedFile", "lineage.json is damaged: not JSON", lineage_damaged),
    "desired.json damaged": Refusal("DamagedFile", "desired.json is damaged: not JSON", desired_damaged),
    "a file where a folder must be": Refusal("UnwritablePath", "File exists", no_folder_of_logs),
    "files gone unread": Refusal("SourceFilesGone", "file:/feed/a.json", behaves("gone"), scripted_command),
    "refused": Refusal("TerminalError", "a column that is not there", behaves("refuse"), scripted_command),
    "away": Refusal("TransientError", "the catalog is being moved", behaves("stumble"), scripted_command),
    "unforeseen": Refusal("SessionizerError", "nobody has foreseen", behaves("fail"), scripted_command),
}

IN_STATUS = {"OperationPending": "`sessionizer carry-out clicks "}
"""What the command line knows better than the remedy of the cause."""


@made(*(refusal.cause for refusal in REFUSALS.values()))
@pytest.mark.parametrize("name", drawn_cases(REFUSALS, 7))
def test_what_people_are_told_of_what_is_refused(name: str, watched: WatchedStream) -> None:
    refusal = REFUSALS[name]
    refusal.arranged(watched)
    watched.watch(refusal.command)
    watched.check(refusal.cause, names=refusal.names)
    if refusal.cause not in {"InvalidSpec", "UnknownStream", "DuplicateStream"}:  # of these status tells by the files
        watched.check_status(refusal.cause, says=IN_STATUS.get(refusal.cause))
    if CAUSES[refusal.cause].verdict is not RetryEffect.UNCLEAR:
        check_not_told_again(watched, refusal)


def check_not_told_again(watched: WatchedStream, refusal: Refusal) -> None:
    """What is terminal is left alone from now on, what is transient tried again and again: neither is news."""
    driver = launched(watched.home).uid if (watched.home.control / "launch.json").exists() else None
    terminal = CAUSES[refusal.cause].verdict is RetryEffect.TERMINAL
    for _ in range(3):
        settle_and_tell(watched.supervisor(refusal.command), watched.said)
    settle_until(
        lambda: terminal or recorded(watched.home).attempts > TRIED,
        lambda: watched.supervisor(refusal.command),
        watched.said,
    )
    assert len(watched.told) == 1
    if terminal and driver is not None:
        assert launched(watched.home).uid == driver, "it was not tried again"


@made("DiskFull")
def test_what_people_are_told_of_a_control_directory_without_room(watched: WatchedStream, small_disk: Path) -> None:
    """Neither a driver nor the supervisor can write anything: what is known is handed from one to the next."""
    watched.home = StreamHome.of(small_disk, "clicks")
    watched.home.prepare()
    fill(small_disk, left=0)
    supervisor = watched.supervisor(scripted_command)
    settle_until(lambda: watched.told, lambda: supervisor, watched.said)
    for _ in range(3):
        assert isinstance(supervisor.settle(), Wait)
    check_alert("DiskFull", watched.told, watched.said, names=str(small_disk))
    check_record("DiskFull", supervisor.ledger.read(), watched.said)


@made("ControlUnreachable")
@pytest.mark.parametrize("begins", [False, True])
def test_what_people_are_told_of_a_stale_mount(watched: WatchedStream, tmp_path: Path, begins: bool) -> None:
    """Also where a watch `begins`, which writes before it reads."""
    (tmp_path / "mounted").mkdir()
    home = watched.home = StreamHome.of(tmp_path / "mounted", "clicks")
    supervisor = watched.supervisor(scripted_command)
    with mount_without_server(tmp_path / "mounted"):
        if begins:
            assert isinstance(supervisor.settle(home.prepare), Wait)
        settle_until(lambda: watched.told, lambda: supervisor, watched.said)
    check_alert("ControlUnreachable", watched.told, watched.said, names="endpoint is not connected")
    check_record("ControlUnreachable", supervisor.ledger.read(), watched.said)


@made("ControlUnreachable")
def test_what_people_are_told_of_a_file_that_cannot_be_reached(watched: WatchedStream) -> None:
    """It is not damaged: nobody can tell."""
    write_desired(watched.home, DesiredState.RUNNING, by="ops", why="")
    with mount_without_server(mounted(watched.home.control / "desired.json")):
        watched.watch(scripted_command)
    watched.check("ControlUnreachable", names="desired.json: Transport endpoint is not connected")


@made("LeaseHeld")
def test_people_are_not_told_of_a_driver_that_finds_another_at_work(watched: WatchedStream) -> None:
    """The supervisor watches the one that works, whoever started it."""
    watched.platform.add("clicks")
    watched.watch(scripted_command, lambda: works(watched.home))
    owner = launched(watched.home).uid
    watched.supervisor(real_driver).launch()
    refused = launched(watched.home).uid
    watched.watch(scripted_command, lambda: EXIT_FILE.of(watched.home, refused).read())
    ended = known(EXIT_FILE.of(watched.home, refused).read())
    assert ended.error_type == "LeaseHeld"
    decision = watched.supervisor(scripted_command).settle()
    assert isinstance(decision, Adopt)
    assert decision.uid == owner
    assert watched.told == []
