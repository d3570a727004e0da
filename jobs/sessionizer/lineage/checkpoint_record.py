"""``checkpoint.json`` of a lineage: how its checkpoint is made and which stream it belongs to (docs/adr/0071).

Spark compares next to nothing of that. A renamed variable is an empty one. A schema that Spark does refuse fails the
query with words of its own. So a driver checks the record before it starts Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.names import offset_log
from sessionizer.core.wire.rows import REVISION
from sessionizer.errors import DataAway, DataElsewhere, UnreadableLineage
from sessionizer.home.data_files import list_names, translate_refusal
from sessionizer.home.home_identity import owner_name
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import LineageFile
from sessionizer.home.roots import DATA_VARIABLE, uri_of
from sessionizer.home.stream_home import CHECKPOINT_RECORD
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.lineage.fingerprint import RELEASE, read_fingerprint
from sessionizer.migrations.graph import revisions_before_head

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome

CHECKPOINT_FORMAT: Final = 1
"""A number for each way that a checkpoint was ever made: the names and Spark types of the state's variables,
how its sources are known, Spark's own formats.

Before the first number the state held text.
"""


@dataclass(frozen=True, slots=True)
class CheckpointRecord(JsonRecord):
    """The format of the checkpoint, the ``revision`` of the blobs in its state, and the stream that it belongs to.

    ``data``: the data root that it is in. None means the home, which may be mounted elsewhere.
    """

    checkpoint_format: int
    revision: str
    owner: str
    data: str | None = None


CHECKPOINT_FILE: Final = LineageFile(CHECKPOINT_RECORD, CheckpointRecord)


def record_of(home: StreamHome) -> CheckpointRecord:
    """Build the record that this release writes for the stream of ``home``. Raises DamagedFile, UnwritablePath."""
    data = None if home.data_root is None else uri_of(home.data_root)
    return CheckpointRecord(CHECKPOINT_FORMAT, REVISION, owner_name(home.name, home.control_base), data)


def write_checkpoint_record(home: StreamHome, lineage: str) -> None:
    """Write the record when ``lineage`` is made, and never again. Raises DamagedFile, UnwritablePath."""
    CHECKPOINT_FILE.of(home, lineage).write(record_of(home))


def require_readable_lineage(home: StreamHome, lineage: str, *, to_upgrade: bool = False) -> None:
    """Raise UnreadableLineage if this release cannot resume ``lineage``. Raises DataElsewhere, DamagedFile.

    ``to_upgrade``: whether an older revision, which this release can bring to its own, is enough.
    """
    kept, now = CHECKPOINT_FILE.of(home, lineage).require(), record_of(home)
    if to_upgrade and kept is not None and kept.revision in revisions_before_head():
        now = replace(now, revision=kept.revision)
    cause = difference(home.name, kept, now)
    if cause is not None:
        made = None if kept is None else read_fingerprint(home, lineage).versions.get(RELEASE)
        raise UnreadableLineage(home.name, lineage, cause if made is None else f"release {made} made it: {cause}")
    require_data_here(home, lineage)


def require_data_here(home: StreamHome, lineage: str) -> None:
    """Raise DataElsewhere if the data of ``lineage`` is not in the given data root. Raises DamagedFile."""
    kept, now = CHECKPOINT_FILE.of(home, lineage).require(), record_of(home)
    if kept is not None and kept.data != now.data:
        at_home = str(home.platform)
        raise DataElsewhere(home.name, lineage, DATA_VARIABLE, kept.data or at_home, now.data or at_home)


def difference(stream: str, kept: CheckpointRecord | None, now: CheckpointRecord) -> str | None:
    """Say why a lineage of ``stream`` that keeps ``kept`` cannot be resumed, None if it can."""
    if kept is None:
        return "it has no checkpoint.json, because an early release began it in a format that this release cannot read"
    if kept.checkpoint_format != now.checkpoint_format:
        return f"its checkpoint has format {kept.checkpoint_format}, and this release reads {now.checkpoint_format}"
    if kept.revision != now.revision:
        said = f"its state has revision {kept.revision}"
        if kept.revision in revisions_before_head():
            return f"{said}. Run `sessionizer upgrade {stream}`, which brings it to {now.revision}"
        return f"{said}, and this release reads {now.revision}"
    if kept.owner != now.owner:
        return f"its checkpoint belongs to {kept.owner}, not to {now.owner}"
    return None


def require_checkpoint(home: StreamHome, lineage: str) -> None:
    """Raise DataAway if ``lineage`` has run batches and its checkpoint is not there. Writes nothing.

    If its mount is away, a driver would begin from scratch.
    """
    checkpoint = home.checkpoint(lineage)
    try:
        is_there = bool(list_names(offset_log(checkpoint)))
    except OSError as error:
        raise translate_refusal(checkpoint, "the checkpoint", error) from error
    if not is_there and BatchLog(home.lineage(lineage).batches).has_batches:
        raise DataAway(home.name, f"the checkpoint of lineage {lineage}", uri_of(checkpoint))
