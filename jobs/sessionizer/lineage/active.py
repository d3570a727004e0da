"""``lineage.json``: which checkpoint's life is the active one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.errors import DamagedFile
from sessionizer.home.clock import epoch_ms
from sessionizer.home.json_record import JsonRecord, require_undamaged, write_record
from sessionizer.home.names import minted_id
from sessionizer.home.room import unwritable
from sessionizer.lineage.checkpoint_record import write_checkpoint_record
from sessionizer.lineage.kept_spec import write_lineage_spec

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.lineage.kept_spec import LineageSpec


@dataclass(frozen=True, slots=True)
class Lineage(JsonRecord):
    """The id of a checkpoint's life, its birth (epoch ms), and the lineage its first state came from."""

    lineage: str
    created_at: int
    parent: str | None = None


def read_lineage(home: StreamHome) -> Lineage | None:
    """The active lineage's record; None if the stream never started. Raises DamagedFile.

    To take a lost file for a stream that never started would start it from scratch and emit every session again.
    """
    record = require_undamaged(Lineage, home.control_files.lineage)
    if record is None and _has_history(home):
        raise DamagedFile(
            home.control_files.lineage, "the file is gone, but there are checkpoints that it must choose from"
        )
    return record


def active_lineage(home: StreamHome) -> str | None:
    """The active lineage's id; None if the stream never started. Raises DamagedFile, as ``read_lineage``."""
    record = read_lineage(home)
    return record.lineage if record else None


def start_lineage(home: StreamHome, parent: str | None = None, *, spec: LineageSpec | None = None) -> str:
    """Make a new lineage's directories, note how it is made, keep its ``spec``, then make it the active one.

    Raises UnwritablePath, and DamagedFile for a damaged ``home.json``.

    Only the holder of the lease may. A crash before the last step leaves a directory that nobody reads.
    """
    now = epoch_ms()
    lineage = minted_id(now)
    for directory in (home.checkpoint(lineage), home.punctuations(lineage)):
        try:
            directory.mkdir(parents=True)
        except OSError as error:
            raise unwritable(directory, "a directory of a new lineage", error) from error
    write_checkpoint_record(home, lineage)
    if spec is not None:
        write_lineage_spec(home, lineage, spec)
    write_record(home.control_files.lineage, Lineage(lineage, now, parent))
    return lineage


def _has_history(home: StreamHome) -> bool:
    """Whether Spark ever wrote into a checkpoint of this stream."""
    return any(home.lineages.glob("*/checkpoint/*"))
