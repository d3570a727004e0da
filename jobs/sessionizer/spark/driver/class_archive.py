"""Maker of the archive of the JVM's classes, run once by ``make`` (``python -m`` this module).

A short stream lives from its first batch to its drain, and the JVM writes down the classes it has loaded by then
(docs/develop/tuning.md). Without the archive everything works, a few seconds later.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Final

from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.driver_environment import class_archive
from sessionizer.launch.installation import jar_folder
from sessionizer.spark.driver.driver_loop import drive
from sessionizer.spark.driver.options import DriverOptions, Until
from sessionizer.spark.internals.own_jvm import end_jvm
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import SpecFile

WRITTEN_WITHIN_S: Final = 120.0
_EVENTS: Final = [
    {"user": user, "at": f"2026-01-01T00:00:{second:02}Z", "id": f"{user}-{second}", "page": "/"}
    for user in ("ada", "ben")
    for second in range(10)
]


def make_archive() -> Path | None:
    """Write the archive beside the jars, None if the JVM wrote none, such as a JVM without an archive of its own."""
    archive = class_archive(jar_folder())
    part = archive.with_suffix(".part")
    for earlier in (archive, part):  # a JVM that is started with an archive writes none
        earlier.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f'"-XX:ArchiveClassesAtExit={part}" "-Xlog:cds*=off"'
    with tempfile.TemporaryDirectory() as folder:
        _live_shortly(Path(folder))
        end_jvm(WRITTEN_WITHIN_S)
    if not part.is_file():
        return None
    part.replace(archive)
    return archive


def _live_shortly(home: Path) -> None:
    feed = home / "feed"
    feed.mkdir()
    (feed / "events.json").write_text("".join(json.dumps(event) + "\n" for event in [*_EVENTS, {"user": None}]))
    spec = StreamSpec.model_validate(
        {
            "name": "archive",
            "source": {"format": "files", "path": str(feed), "encoding": "json", "columns": "user string, at string, "
                       "id string, page string"},
            "mapping": {"key": "user", "event_time": "to_timestamp(at)", "event_id": "id", "payload": {"page": "page"}},
        }
    )  # fmt: skip
    options = DriverOptions("archive", Until.DRAINED, master="local[2]")
    drive(StreamHome.of(home, spec.name), SpecFile(spec.name, spec), options, print)


if __name__ == "__main__":
    made = make_archive()
    print(f"classes archived in {made.name}" if made else "no archive of classes: drivers take longer to start")  # noqa: T201  a command
