"""Savepoints that are nothing but files: for what looks after them and never opens a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import GROUP_LOGS, OPEN_EVENTS, SEEN_FILES, TIMEOUTS, SavepointHome
from sessionizer.lineage.fingerprint import Fingerprint
from sessionizer.state.lineages.committed_batch import Position
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin
from sessionizer.state.savepoints.listing import UseMark, write_data_record
from sessionizer.state.savepoints.manifest import (
    Counts,
    Manifest,
    SavepointKind,
    SinkTable,
    write_manifest,
)
from sessionizer.state.savepoints.verification import data_files
from support.places import opened

if TYPE_CHECKING:
    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome

SPEC = {"name": "clicks", "key_groups": 4, "rules": {"gap_timeout": "30 seconds"}, "description": "x"}
NOBODY = 2**22 + 1
"""A process id that no Linux gives out."""


def manifest_of(savepoint: str, batch_id: int = 7, made_at: int = 1_000) -> Manifest:
    """A manifest without files."""
    return Manifest(
        id=savepoint,
        kind=SavepointKind.CANONICAL,
        stream="clicks",
        owner="clicks@1f2e3d4c5b6a7988",
        lineage="20261121T105501-3fa9c2",
        batch_id=batch_id,
        batch_at=900,
        made_at=made_at,
        live=True,
        checkpoint_format=1,
        revision="0001",
        spec=SPEC,
        time_mode="event_time",
        payload_types={"page": ["string"]},
        position=Position("files", {"logOffset": 3}),
        watermark_ms=850,
        sinks=(SinkTable("sessions", "/tables/sessions", 12), SinkTable("quarantine", "/tables/quarantine", None)),
        counts=Counts(events=9, keys=4, groups=2, sessions=5),
        earliest_due_ms=990,
        fingerprint=Fingerprint("ab", {"spark": "4.2.0"}, {"spark.sql.shuffle.partitions": "2"}),
    )


def fabricate(folder: DataPath, savepoint: str, made_at: int = 1_000, why: str = "tests") -> SavepointHome:
    """A complete savepoint with a file of each kind."""
    home = begin(folder, savepoint, why=why)
    for part in (GROUP_LOGS, OPEN_EVENTS, TIMEOUTS, SEEN_FILES):
        log = home.part(part) / "_delta_log"
        opened(log).mkdir(parents=True)
        opened(log / f"{0:020d}.json").write_text('{"add": "part-0.parquet"}')
        opened(home.part(part) / "part-0.parquet").write_bytes(part.encode() * 50)
    write_manifest(home, replace(manifest_of(savepoint, made_at=made_at), files=tuple(data_files(home))))
    return home


def begin(folder: DataPath, savepoint: str, *, by_the_dead: bool = False, why: str = "tests") -> SavepointHome:
    """A savepoint that this process, or one that was killed, has begun to make."""
    home = SavepointHome.of(folder, savepoint)
    ours = UseMark.now(why)
    write_data_record(home.begun, replace(ours, pid=NOBODY) if by_the_dead else ours)
    return home


def read_by_the_dead(home: SavepointHome) -> None:
    """The mark of a reader that was killed."""
    write_data_record(home.reader("dead"), replace(UseMark.now("tests"), pid=NOBODY))


def read_elsewhere(home: SavepointHome, since: int | None = None) -> None:
    """The mark of a reader on another machine."""
    engaged = replace(UseMark.now("tests"), host="elsewhere", at=epoch_ms() if since is None else since)
    write_data_record(home.reader("far"), engaged)


def note_origin(home: StreamHome, lineage: str, savepoint: str) -> None:
    """Have a lineage be one that began with ``savepoint``."""
    home.lineage(lineage).records.mkdir(parents=True)
    ORIGIN_FILE.of(home, lineage).write(Origin("restore", 0, "20261121T105500-000000", 7, savepoint))
