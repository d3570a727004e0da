"""The two sides of an upgrade, read without Spark and while the stream runs: its lineage, and this installation."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sessionizer.checkpoint.batch_logs import read_pinned_settings
from sessionizer.core.wire.schema import REVISION
from sessionizer.deployment.verdicts.tables import SinkColumns
from sessionizer.deployment.verdicts.verdict import OpenState, Side
from sessionizer.errors import DamagedFile, StoreUnreachable
from sessionizer.home.control_store import cached_read, store_at
from sessionizer.home.data_files import list_names, read_data_text
from sessionizer.home.names import SESSIONS
from sessionizer.home.roots import folder_at
from sessionizer.lineage.checkpoint_record import CHECKPOINT_FILE, CHECKPOINT_FORMAT
from sessionizer.lineage.fingerprint import present_fingerprint, read_fingerprint
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE
from sessionizer.lineage.open_sessions import OpenSessions
from sessionizer.stream_spec.decisions import document_of

if TYPE_CHECKING:
    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome
    from sessionizer.stream_spec.document.stream import StreamSpec

_CHECKSUM: Final = re.compile(r"\d{20}\.crc")


def running_side(home: StreamHome, lineage: str) -> Side:
    """Read what ``lineage`` runs by. Raises DamagedFile if a record is lost or damaged."""
    files = home.lineage(lineage)
    spec = SPEC_FILE.of(home, lineage).require()
    record = CHECKPOINT_FILE.of(home, lineage).require()
    if spec is None or record is None:
        raise DamagedFile(files.records, "it lacks spec.json or checkpoint.json")
    kept = read_fingerprint(home, lineage)
    if not kept.configuration:
        kept = replace(kept, configuration=read_pinned_settings(files.checkpoint))
    return Side(spec.document, kept, record.checkpoint_format, record.revision)


def present_side(spec: StreamSpec, before: Side) -> Side:
    """Return what a stream would run by: the file's ``spec``, and the programs here, instead of those ``before``."""
    return Side(document_of(spec), present_fingerprint(known=before.fingerprint), CHECKPOINT_FORMAT, REVISION)


def open_state(home: StreamHome, lineage: str) -> OpenState:
    """Read about how many sessions are open, and the types that their columns may have. Raises DamagedFile.

    The number is 0 only if none is open.
    """
    file = home.lineage(lineage).open_sessions
    learned = OpenSessions(file) if store_at(file).exists() else None
    count = None if learned is None else learned.total or learned.most
    return replace(uncounted_state(home, lineage), sessions=count)


def uncounted_state(home: StreamHome, lineage: str) -> OpenState:
    """Read the types that the columns of open sessions may have. Raises DamagedFile."""
    types = TYPES_FILE.of(home, lineage).require()
    return OpenState(types=types.payload if types is not None else {})


def sink_columns(home: StreamHome, spec: StreamSpec) -> SinkColumns:
    """Read the columns of the table of sessions that ``spec`` writes to, as far as its log tells at a glance."""
    table = folder_at(home.table_locations(spec.sink.path)[SESSIONS])
    return cached_read(table, "columns", lambda: _columns_of(table))


def _columns_of(table: DataPath) -> SinkColumns:
    try:
        return _read_columns(table / "_delta_log")
    # Spark asks the table before the plan is carried out
    except (OSError, StoreUnreachable, ValueError, KeyError, TypeError):
        return SinkColumns()


def _read_columns(log: DataPath) -> SinkColumns:
    newest = max(filter(_CHECKSUM.fullmatch, list_names(log)), default=None)
    if newest is None:
        return SinkColumns()
    metadata: dict[str, Any] = json.loads(read_data_text(log / newest))["metadata"]
    return SinkColumns.of(json.loads(metadata["schemaString"]), metadata.get("configuration") or {})
