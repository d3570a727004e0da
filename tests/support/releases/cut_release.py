"""Golden files of a release: a stream with open sessions, and both kinds of savepoint of it.

Run ``PYTHONPATH=jobs:plugins:demo:tests python -m support.releases.cut_release`` once, at the tag of a release. It
refuses any other code. Each later release brings them to its head (tests/spark/state/test_golden_releases.py).
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final
from unittest import mock

from pyspark.sql import SparkSession

import sessionizer
from sessionizer.checkpoint.state_files import move_schema
from sessionizer.lineage.fingerprint import code_digest
from sessionizer.spark.session import spark_session
from sessionizer.spark.state.savepoints.saved_state import make_savepoint
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from support.places import REPOSITORY, opened
from support.processes.in_process import catch_up, drain
from support.streams.changing_stream import records_of
from support.streams.click_files import write_click_files
from support.streams.stage import Stage, clicks_spec

RELEASES: Final = REPOSITORY / "tests" / "golden" / "releases"
MADE_AT: Final = Path("/tmp/golden-release")  # noqa: S108  a name that tells nothing of the maker's machine
"""Folder in which a release is cut. Spark's files name it, and so does the home's record."""
MADE_ON: Final = "golden"
"""Host name in the records."""
CHECKPOINT, CANONICAL, NATIVE, EXPECTED = "checkpoint", "canonical", "native", "expected.json"
MADE_BY: Final = "release.json"
"""Record of the code that made the files: the commit of its tag, and the digest of its deciding code."""
SMALL: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def cut_release(spark: SparkSession, root: Path, release: Path) -> None:
    """Write the golden files of this release into the folder ``release``."""
    stage = Stage.begun(root, clicks_spec())
    write_click_files(stage.feed, 2, rate=4)
    catch_up(spark, stage)
    home = stage.stream_home
    committed = read_committed_batch(home)
    make_savepoint(spark, home, committed, SavepointRequest(home.savepoints, "release", CANONICAL), lambda _: None)
    make_native_savepoint(home, committed, SavepointRequest(home.savepoints, "release", NATIVE), lambda _: None)
    for kind in (CANONICAL, NATIVE):
        _pack(release / f"{kind}.tar.xz", root, [Path(str(home.savepoints)) / kind])
        shutil.rmtree(Path(str(home.savepoints)) / kind)
    shutil.rmtree(stage.feed)
    _pack(release / f"{CHECKPOINT}.tar.xz", root, [root])
    stage.feed.mkdir()
    drain(spark, stage)
    (release / EXPECTED).write_text(json.dumps(sessions_of(spark, stage), indent=1) + "\n")


def sessions_of(spark: SparkSession, stage: Stage) -> list[list[Any]]:
    """Return the sessions of a stream: id, key, times (µs), number of events and their ids."""
    rows = records_of(spark, str(stage.table("sessions")))
    told = ("session_id", "key", "started_at", "ended_at", "event_count")
    return sorted([*(row[name] for name in told), [event["event_id"] for event in row["events"]]] for row in rows)


def unpack_release(release: Path, root: Path, *kinds: str) -> Stage:
    for kind in (CHECKPOINT, *kinds):
        with tarfile.open(release / f"{kind}.tar.xz") as archive:
            archive.extractall(root)  # noqa: S202  made by us
    stage = Stage(root, root / "home")
    assert stage.lineage
    # an archive has files only, and each source needs its folder
    for folder in (stage.feed, stage.stream_home.punctuations(stage.lineage)):
        opened(folder).mkdir(exist_ok=True)
    move_schema(stage.checkpoint, f"file:{stage.checkpoint}")
    return stage


def _pack(archive: Path, root: Path, folders: list[Path]) -> None:
    with tarfile.open(archive, "w:xz") as packed:
        for folder in folders:
            for file in sorted(path for path in folder.rglob("*") if path.is_file() and "logs" not in path.parts):
                packed.add(file, file.relative_to(root), filter=_without_owner)


def _without_owner(file: tarfile.TarInfo) -> tarfile.TarInfo:
    return file.replace(uid=0, gid=0, uname="", gname="", deep=False)


def require_tagged(repository: Path, version: str) -> str:
    """Return the commit of the release ``version``, which ``repository`` must have checked out without a change.

    Raises SystemExit with what to do instead.
    """

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", repository, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    tag, head = f"v{version}", git("rev-parse", "HEAD")
    if "dev" in version:
        raise SystemExit(f"{version} is no release. Set __version__ to the version of the release, then commit and tag")
    if git("status", "--porcelain"):
        raise SystemExit("files differ from the commit. Commit or remove them (`git status`), then tag")
    tagged = git("rev-parse", "--verify", "--quiet", f"{tag}^{{commit}}")
    if not tagged:
        raise SystemExit(f"there is no tag {tag}. Tag the release first: `git tag -a {tag} -m {tag}`")
    if tagged != head:
        raise SystemExit(f"{tag} is commit {tagged[:12]}, but {head[:12]} is checked out. Check out {tag}")
    return head


def main() -> None:
    """Cut this version. Raises FileExistsError if its folder or the scratch folder is there."""
    version = sessionizer.__version__
    if not Path(sessionizer.__file__).is_relative_to(REPOSITORY):
        raise SystemExit(f"the code is {sessionizer.__file__}. Set PYTHONPATH to run that of this checkout")
    record = {"version": version, "commit": require_tagged(REPOSITORY, version), "code": code_digest()}
    release = RELEASES / version
    release.mkdir()
    MADE_AT.mkdir()
    session = spark_session("release", master="local[2]", extra=SMALL)
    system, _, *more = os.uname()
    machine = os.uname_result((system, MADE_ON, *more))
    with mock.patch("socket.gethostname", return_value=MADE_ON), mock.patch("os.uname", return_value=machine):
        cut_release(session, MADE_AT, release)
    session.stop()
    (release / MADE_BY).write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(MADE_AT)


if __name__ == "__main__":
    main()
    sys.exit(0)
