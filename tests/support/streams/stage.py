"""A stage: a platform home of its own with one stream on it, for tests that run real drivers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sessionizer.control.records.process_records import EXIT_FILE, ExitRecord
from sessionizer.deployment.running_spec import new_record
from sessionizer.home.roots import DataPath, control_root, data_root
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, start_lineage
from sessionizer.lineage.kept_spec import LineageSpec, write_lineage_spec
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import find_stream
from support.places import known

CLICK_COLUMNS = (
    "event_id string, user_id string, client string, ts bigint, type string, page string, amount double, "
    "device string, timeout_s int"
)
PAYLOAD_COLUMNS = ("type", "page", "amount", "device")


def clicks_spec(files_per_batch: int = 1, **rules: Any) -> dict[str, Any]:
    """A stream of clicks in JSON files, in few key groups: its batches are small."""
    return {
        "source": {
            "format": "files",
            "path": "feed",
            "encoding": "json",
            "columns": CLICK_COLUMNS,
            "options": {"maxFilesPerTrigger": files_per_batch},
        },
        "mapping": click_mapping(),
        "rules": {"watermark_delay": "10 seconds", "gap_timeout": "30 seconds", "emit_every": "5 seconds"} | rules,
        "key_groups": 4,
        "trigger_interval": "1 second",
    }


def topic_source(servers: str, topic: str, **options: Any) -> dict[str, Any]:
    source = {"format": "kafka", "bootstrap_servers": servers, "topic": topic, "encoding": "json"}
    return {**source, "columns": CLICK_COLUMNS, "options": options}


def click_mapping() -> dict[str, Any]:
    return {
        "key": "user_id",
        "client": "client",
        # the two ends of what a timestamp can show: one is in the future, the other is not positive
        "event_time": "timestamp_millis(case when ts > 253402300799999 then 253402300799999 "
        "when ts < 0 then 0 else ts end)",
        "event_id": "event_id",
        "closes": "type <=> 'logout'",
        "timeout_ms": "timeout_s * 1000L",
        "payload": {name: name for name in PAYLOAD_COLUMNS},
    }


@dataclass(frozen=True, slots=True)
class Stage:
    """The folders of one test: ``home`` is the platform's, ``streams`` holds the spec, ``feed`` is the input.

    ``data``: the data root, ``control``: the control root, where that is not the home.
    """

    root: Path
    home: Path
    name: str = "clicks"
    data: str | None = None
    control: str | None = None

    @classmethod
    def set_up(
        cls,
        root: Path,
        spec: Mapping[str, Any],
        *,
        home: Path | None = None,
        name: str = "clicks",
        data: str | None = None,
        control: str | None = None,
    ) -> Stage:
        """A new stage under ``root`` with the spec of its stream, which is called ``name``."""
        stage = cls(root, home or root / "home", name, data, control)
        for folder in (stage.streams, stage.feed):
            folder.mkdir(parents=True, exist_ok=True)
        stage.write_spec(spec)
        return stage

    @classmethod
    def begun(cls, root: Path, spec: Mapping[str, Any], *, data: str | None = None) -> Stage:
        """A new stage whose stream has a lineage, as a driver makes one, and has read nothing yet."""
        stage = cls.set_up(root, spec, data=data)
        stage.stream_home.prepare()
        start_lineage(stage.stream_home, spec=LineageSpec(document_of(stage.spec())))
        return stage

    def bring(self, files: Iterable[Path]) -> None:
        """Copy the files into the feed, each of which appears there whole: a driver may run."""
        for file in files:
            Path(shutil.copy2(file, self.feed / f".{file.name}")).rename(self.feed / file.name)

    def copied_to(self, root: Path) -> Stage:
        """Copy all its folders, so that a test may change what others share.

        A source of files has the files by their old paths: to a driver of the copy all files of the feed are new.
        """
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return replace(self, root=root, home=root / self.home.relative_to(self.root))

    @property
    def streams(self) -> Path:
        return self.root / "streams"

    @property
    def feed(self) -> Path:
        return self.home / "feed"

    @property
    def stream_home(self) -> StreamHome:
        home = StreamHome.of(self.home, self.name, data_root(self.data, self.home))
        return replace(home, control_root=control_root(self.home, self.control)) if self.control else home

    @property
    def lineage(self) -> str | None:
        """The active lineage; None before the stream's first start."""
        return active_lineage(self.stream_home)

    @property
    def checkpoint(self) -> DataPath:
        return self.stream_home.checkpoint(known(self.lineage))

    def exit_of(self, uid: str) -> ExitRecord:
        """Return the exit record that a driver has left."""
        return known(EXIT_FILE.of(self.stream_home, uid).read())

    def record_spec(self) -> None:
        """Note the spec in the record of the active lineage, as a driver does that starts with it."""
        write_lineage_spec(self.stream_home, known(self.lineage), new_record(self.stream_home, self.spec()))

    def write_spec(self, spec: Mapping[str, Any]) -> None:
        text = yaml.safe_dump({**spec, "name": self.name}, sort_keys=False)
        (self.streams / f"{self.name}.yaml").write_text(text, encoding="utf-8")

    def spec(self) -> StreamSpec:
        return find_stream(self.streams, self.name)

    def table(self, name: str) -> DataPath:
        return self.stream_home.table(name)
