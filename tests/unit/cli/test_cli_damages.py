"""Every record that a stream needs, lost in every way: it is named with what to do, and the exit code says so."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, write_exit
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import DamagedFile, DataAway, NothingToShow
from sessionizer.home.clock import epoch_ms
from sessionizer.home.home_identity import identity_file
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, active_lineage, begin_drain, make_lineage, start_lineage
from sessionizer.lineage.batch_log import BatchFacts, BatchLog
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes
from sessionizer.stream_spec.spec_folder import find_stream
from support.fixtures.platform import Main
from support.places import known, mounted
from support.processes.fabricated_platform import Platform

NEEDED = ("lineage.json", "spec.json", "types.json", "checkpoint.json", "home.json")
NEEDED_IF_THERE = ("desired.json", "drained.json", "excluded_ranges.json", "canary.json", "origin.json")


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def foreign(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "cut": cut,
    "empty": lambda path: path.write_bytes(b""),
    "not JSON": lambda path: path.write_text("<html>"),
    "another format": foreign,
}


def files_of(home: StreamHome, lineage: str) -> dict[str, Path]:
    records = mounted(home.lineage(lineage).records)
    return {
        **{name: records / name for name in (*NEEDED, *NEEDED_IF_THERE)},
        "lineage.json": mounted(home.lineage_record),
        "desired.json": mounted(home.control / "desired.json"),
        "home.json": mounted(identity_file(home.control_base).path),
    }


@pytest.fixture
def stopped(platform: Platform) -> tuple[Platform, dict[str, Path]]:
    """A stream that has run and was stopped, and its records."""
    lease, home = platform.add_driven("clicks", batch_id=7)
    home.prepare_data()
    lineage = start_lineage(home, spec=new_record(home, find_stream(platform.streams, "clicks")))
    TYPES_FILE.of(home, lineage).write(KeptTypes("event_time"))
    BatchLog(home.lineage(lineage).batches).add(
        BatchFacts(
            batch_id=7, read=1, admitted=1, late=0, quarantined=0, sessions=0, open_before=0, open_after=1, held_bytes=9
        )
    )
    write_exit(home, ExitRecord("driver-1", epoch_ms(), ExitOutcome.STOPPED, batch_id=7))
    lease.release()
    return platform, files_of(home, lineage)


def test_a_stream_that_is_whole_has_nothing_to_tell(stopped: tuple[Platform, dict[str, Path]]) -> None:
    platform, _ = stopped
    shown = platform.call("status", "clicks")
    assert shown.exit_code == 0
    assert json.loads(platform.call("status", "clicks", "--json").stdout)[0]["damage"] == []


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", NEEDED)
def test_what_is_lost_is_named_with_what_to_do(
    stopped: tuple[Platform, dict[str, Path]], name: str, damage: Callable[[Path], object]
) -> None:
    platform, files = stopped
    damage(files[name])
    shown = platform.call("status", "clicks")
    assert shown.exit_code == DamagedFile.exit_code
    (line,) = [line for line in shown.stdout.splitlines() if "damaged" in line]
    assert str(files[name]) in line
    assert "→" in line
    (told,) = json.loads(platform.call("status", "clicks", "--json").stdout)
    assert [str(files[name]) in each for each in told["damage"]] == [True]
    assert platform.call("status").exit_code == DamagedFile.exit_code


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "gone"])
@pytest.mark.parametrize("name", NEEDED_IF_THERE)
def test_so_is_what_not_every_stream_has(stopped: tuple[Platform, dict[str, Path]], name: str, damage: str) -> None:
    platform, files = stopped
    files[name].write_text("{}")
    DAMAGES[damage](files[name])
    shown = platform.call("status", "clicks")
    assert shown.exit_code == DamagedFile.exit_code
    assert any("damaged" in line and str(files[name]) in line for line in shown.stdout.splitlines())


def test_a_lineage_that_no_driver_has_run_misses_nothing(platform: Platform) -> None:
    home = platform.add_prepared("clicks")
    lineage = start_lineage(home)
    assert platform.call("status", "clicks").exit_code == 0
    begin_drain(home, lineage)
    assert platform.call("status", "clicks").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("state", "timeline", "clicks"), ("state", "show", "clicks"), ("savepoint", "create", "clicks", "--native"),
        ("rescale", "clicks", "--key-groups", "8"), ("switch", "clicks", "--start-at", "latest"),
        ("upgrade", "clicks"),
    ],
    ids=lambda words: " ".join(words[:2]),
)  # fmt: skip
def test_a_checkpoint_that_is_gone_is_named_by_each_command(
    stopped: tuple[Platform, dict[str, Path]], words: tuple[str, ...], main: Main
) -> None:
    """A command that says `nothing is committed` sends its user to start the stream, which cannot start."""
    platform, _ = stopped
    places = () if words[0] == "state" else ("--streams", str(platform.streams))
    assert main(*words, "--home", str(platform.home), *places) == DataAway.exit_code


def test_an_earlier_lineage_without_a_file_of_its_batch_is_not_tried_again(
    stopped: tuple[Platform, dict[str, Path]], main: Main
) -> None:
    """`BatchOutrun` is transient: it asks for another try, which would end the same."""
    platform, _ = stopped
    home = StreamHome.of(platform.home, "clicks")
    earlier = known(active_lineage(home))
    commits = mounted(home.checkpoint(earlier)) / "commits"
    commits.mkdir(parents=True)
    (commits / "7").write_text('v2\n{"nextBatchWatermarkMs":0}')
    activate_lineage(home, make_lineage(home, None), earlier)
    code = main("state", "timeline", "clicks", "--lineage", earlier, "--home", str(platform.home))
    assert code == NothingToShow.exit_code
