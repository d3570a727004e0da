"""A small stream with every file that a stream can have, the ways in which a disk spoils one, and all readers."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from sessionizer.causes.table import remedy_for
from sessionizer.cli.app import app
from sessionizer.cli.terminal import translate_refusal
from sessionizer.control.history.files import Mark, MarkKind, add_mark, hour_name, write_hour
from sessionizer.control.history.sample import Sample, Straggler, StragglerKind, minute_of
from sessionizer.control.lease import acquire
from sessionizer.control.records.driver_records import POSITIONS_FILE, HeavyKey, PartitionPosition, PositionsRecord
from sessionizer.control.records.operation_record import Ending, OperationRecord
from sessionizer.control.records.process_records import LAUNCH_FILE, ExitOutcome, ExitRecord, LaunchRecord, write_exit
from sessionizer.control.records.supervision_records import (
    HEALTH_FILE,
    PAUSE_FILE,
    SUPERVISION_FILE,
    WATCH_FILE,
    DesiredState,
    Health,
    PauseRecord,
    SupervisionRecord,
    WatchRecord,
    write_desired,
)
from sessionizer.errors import SessionizerError
from sessionizer.fleet.bundle import collect_bundle
from sessionizer.fleet.streams import find_view
from sessionizer.home.clock import epoch_ms
from sessionizer.home.home_identity import note_home_here
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.canary.canary_record import begin_canary
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.page.app import create_page_alone
from sessionizer_airflow.supervision.policy import SupervisionPolicy
from sessionizer_airflow.supervision.watch import HealthWatch, look_at
from support.pages.page_alone import ENTERED, TOKEN, ask_application
from support.places import REPOSITORY, known, mounted
from support.processes.fabricated_platform import Platform, beat
from support.verbs.begun_restore import write_operation

SPOILED, WHOLE = "clicks", "visits"
"""The stream whose files are damaged, and one beside it."""


def small_platform(root: Path) -> Platform:
    """Unpack the stream of a release, with the records that it would have under Airflow. Add a whole stream."""
    for kind in ("checkpoint", "native", "canonical"):
        with tarfile.open(REPOSITORY / "tests" / "golden" / "releases" / "0.2.0" / f"{kind}.tar.xz") as archive:
            archive.extractall(root)  # noqa: S202  made by us
    platform = Platform(root / "home", root / "streams")
    (root / "feed").mkdir()
    home = StreamHome.of(platform.home, SPOILED)
    note_home_here(platform.home)
    mounted(home.logs).mkdir(exist_ok=True)
    now = epoch_ms()
    lineage = known(active_lineage(home))
    write_desired(home, DesiredState.RUNNING, by="olga", why="")
    lease = acquire(home, "driver-1")
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=now, log=str(home.driver_log("driver-1"))))
    home.driver_log("driver-1").write_text("begun\n")
    beat(
        home, lineage=lineage, batch_id=2, progress_at=now, watermark_ms=now - 9_000, heaviest_keys=(HeavyKey(key="ann",
        group=1, events=3),), open_ages={"1m": 2}, straggler=Straggler(kind=StragglerKind.KEY, name="ann",
        since=now, batches=3, took_ms=4_000, batch_ms=5_000),
    )  # fmt: skip
    write_exit(home, ExitRecord("driver-0", now - 1_000, ExitOutcome.FAILED, error_type="QueryFailed", message="x"))
    SUPERVISION_FILE.of(home).write(SupervisionRecord(failures=1, last_failure="x", last_failure_ms=now, remedy="y"))
    WATCH_FILE.of(home).write(WatchRecord(run_id="r-1", try_number=1, streams=str(platform.streams)))
    HEALTH_FILE.of(home).write(Health(worked_at=now, looked_at=now))
    PAUSE_FILE.of(home).write(PauseRecord(at=now, paused=False))
    partition = PartitionPosition(name="clicks-0", offset=1, newest=2, oldest=0)
    POSITIONS_FILE.of(home).write(PositionsRecord(at=now, lineage=lineage, batch_id=2, partitions=(partition,)))
    write_operation(
        home, OperationRecord(id="o-1", verb="rescale", stream=SPOILED, by="olga", digest="d", savepoint="",
        lineage_from=lineage, batch_from=1, wanted=DesiredState.RUNNING, begun_at=now, step_at=now, outcome=Ending.DONE)
    )  # fmt: skip
    begin_canary(home, lineage, "rescale", lineage, CanaryTerms())
    write_hour(home, hour_name(now), [Sample(at=minute_of(now), lineage=lineage, batches=1, phases={"plan": 3})])
    add_mark(home, Mark(kind=MarkKind.START, at=now, uid="driver-1", lineage=lineage))
    assert lease
    platform.add(WHOLE)
    platform.drive(WHOLE, batch_id=7)
    return platform


def files_of(platform: Platform) -> list[Path]:
    """The files of the spoiled stream, without Spark's checksums, whose damage Spark and the inspection see alone."""
    below = [platform.home / "home.json", platform.home / "streams" / SPOILED, platform.streams / f"{SPOILED}.yaml"]
    found = [file for path in below for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    return sorted(file for file in found if not (file.name.startswith(".") and file.suffix == ".crc"))


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_text("x")


def _a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link(to: str) -> Callable[[Path], None]:
    def replace_by_link(path: Path) -> None:
        path.unlink()
        path.symlink_to(to)

    return replace_by_link


DAMAGES: Final[dict[str, Callable[[Path], object]]] = {
    "gone": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "NUL": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "NUL at its end": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] + b"\0" * 512),
    "other encoding": lambda path: path.write_bytes(path.read_bytes().decode("latin-1").encode("utf-16")),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x80" + path.read_bytes()),
    "deep nesting": lambda path: path.write_bytes(b'v1\n{"a":' + b"[" * 100_000),
    "a list": lambda path: path.write_bytes(b"[5]"),
    "folder": _a_folder,
    "FIFO": _a_fifo,
    "link to a device": _link("/dev/zero"),
    "dangling link": _link("/nowhere"),
    "no permission": lambda path: path.chmod(0),
}
"""What becomes of a whole file."""

ODD: Final[tuple[Any, ...]] = (
    None, True, 5, -1, 10**18, -(10**18), 10**400, 1e300, float("nan"), float("inf"), "", "x", "\0", "\ud800", "../x",
    {}, [], {"x": {}}, [None], [{}],
)  # fmt: skip
"""What becomes of one field of JSON."""


def field_damages(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield each file that has one odd field in one of its lines of JSON, or in the whole, by what is odd in it."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    try:
        pieces = [json.loads(text)]
    except ValueError:
        pieces = [_parsed(line) for line in text.splitlines()]
        lines = text.splitlines()
    else:
        lines = [text]
    for number, value in enumerate(pieces):
        for way in _ways(value):
            for odd in ODD:
                spoiled = [*lines[:number], json.dumps(_with(value, way, odd)), *lines[number + 1 :]]
                yield f"{number}:{'.'.join(map(str, way))} = {str(odd)[:12]!a}", "\n".join(spoiled).encode()


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _ways(value: Any) -> Iterator[tuple[str | int, ...]]:
    parts: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield (name,)
        yield from ((name, *way) for way in _ways(part))


def _with(value: Any, way: tuple[str | int, ...], odd: Any) -> Any:
    if not way:
        return odd
    copy = value.copy()
    copy[way[0]] = _with(value[way[0]], way[1:], odd)
    return copy


@contextmanager
def kept_aside(path: Path) -> Iterator[None]:
    content, mode = path.read_bytes(), path.stat().st_mode
    try:
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.is_symlink() or path.exists():
            path.unlink()
        path.write_bytes(content)
        path.chmod(mode)


def readers(platform: Platform) -> dict[str, Callable[[], object]]:
    """Return all that read the files of a stream, each called in this process. Each raises what a user would see."""
    application = create_page_alone(platform.home, platform.streams, TOKEN)
    checkpoint = next((platform.home / "streams" / SPOILED / "lineages").glob("*/checkpoint"))
    home, policy = StreamHome.of(platform.home, SPOILED), SupervisionPolicy()

    def page(path: str, **headers: str) -> Any:
        answer = ask_application(application, f"/api/{path}", headers={**ENTERED, **headers})
        assert answer.status_code in {200, 404, 503}, answer.text
        return answer.json()

    def command(*words: str, specs: bool = False) -> Callable[[], str]:
        given = ("--home", str(platform.home), *(("--streams", str(platform.streams)) if specs else ()))
        return lambda: _run(*words, *given)

    def table() -> None:
        (row,) = [line for line in command("status", specs=True)().splitlines() if line.strip().startswith(f"{WHOLE} ")]
        assert "RUNNING" in row or "STALLED" in row

    stream = f"streams/{SPOILED}.supervise"
    return {
        "fleet": lambda: _require_whole(page("fleet")["streams"]),
        "document": lambda: page(stream),
        "live": lambda: page(f"{stream}/live"),
        "find on the page": lambda: page(f"{stream}/find", **{"x-event": "e"}),
        "refused": lambda: page(f"{stream}/refused"),
        "log": lambda: page(f"{stream}/log"),
        "status": table,
        "status --json": lambda: _require_whole(json.loads(command("status", "--json", specs=True)())),
        "timeline": command("timeline", SPOILED),
        "find": command("find", SPOILED, "--event", "e", specs=True),
        "state timeline": command("state", "timeline", SPOILED),
        "inspect": lambda: _run("checkpoint", "inspect", str(checkpoint), "--deep"),
        "savepoint list": command("savepoint", "list", SPOILED),
        "savepoint verify": command("savepoint", "verify", SPOILED, "native"),
        "savepoint show": command("savepoint", "show", SPOILED, "canonical"),
        "tables": command("tables", SPOILED, specs=True),
        "bundle": lambda: collect_bundle(find_view(platform.home, platform.streams, SPOILED), platform.streams),
        "supervisor": lambda: look_at(home, policy).line,
        "health": lambda: HealthWatch(home).look(find_view(platform.home, platform.streams, SPOILED).health),
        "word": lambda: find_view(platform.home, platform.streams, SPOILED).health.label,
    }


def _run(*words: str) -> str:
    """Call a command in this process. Returns its output, and raises the traceback that its user would see."""
    done = CliRunner().invoke(app, words)
    error = translate_refusal(done.exception) if isinstance(done.exception, OSError) else done.exception
    if isinstance(error, SessionizerError):
        assert remedy_for(error)
    elif error is not None and not isinstance(error, SystemExit):
        raise error
    return done.stdout


def _require_whole(rows: list[Any]) -> None:
    """Require that a list of the fleet has both streams, and all about the one that is whole."""
    names = {row["stream"]: row for row in rows}
    assert names.keys() == {SPOILED, WHOLE}
    # by now its driver is silent, because nobody beats for it
    assert names[WHOLE]["state"] in {"RUNNING", "STALLED"}, names[WHOLE]
