"""A scan of a Delta table without Spark: its newest files first, until enough is found or the time is over.

Delta's files have no index by key or id, so a rare key needs a look at all of them. A scan that ends before says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sessionizer.errors import DamagedFile, LookupNotInstalled
from sessionizer.home.json_record import JsonObject
from sessionizer.home.local_files import file_kind, first_line

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads


WITHIN_S: Final = 1.5
"""Seconds after which an answer in a warm process opens no further file."""


def begin(seconds: float) -> float:
    """Return the deadline (s, monotonic clock) of an answer that begins now. Raises LookupNotInstalled."""
    try:
        import deltalake  # noqa: F401, PLC0415  an extra
        import pyarrow.dataset  # noqa: PLC0415
        import pyarrow.parquet  # noqa: F401, PLC0415
    except ImportError as error:
        raise LookupNotInstalled from error
    return time.monotonic() + seconds


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The rows that were found, newest first, and how many of the ``files`` that could have one were ``read``."""

    rows: list[JsonObject] = field(default_factory=list)
    read: int = 0
    files: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether no file is left that could change the answer."""
        return self.read == self.files

    def to_json(self) -> JsonObject:
        """Return the extent of the scan, without the rows."""
        return {"files_read": self.read, "files": self.files, "complete": self.is_complete}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file of a table, with the ``newest`` instant in the column that orders the rows, None if unknown."""

    fragment: pads.ParquetFileFragment
    schema: pa.Schema
    newest: Any

    def read(self, columns: Sequence[str], wanted: pads.Expression | None) -> pa.Table:
        """Read the ``columns`` that the table has, of the rows that are ``wanted``."""
        known = [name for name in columns if name in self.schema.names]
        return self.fragment.to_table(schema=self.schema, columns=known, filter=wanted)

    def read_nested(self, column: str, field: str) -> pa.ListArray:
        """Read one ``field`` of the structs in a list ``column``, of all rows. The others are not decoded."""
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415  of an extra

        with self.fragment.filesystem.open_input_file(self.fragment.path) as opened:
            file = ParquetFile(opened)
            leaves = (file.schema.column(number).path for number in range(len(file.schema)))
            # writers name the levels between a list and its structs in their own ways
            ours = [leaf for leaf in leaves if leaf.startswith(f"{column}.") and leaf.endswith(f".{field}")]
            return file.read(columns=ours).column(column).combine_chunks()


@dataclass(frozen=True, slots=True)
class TableScan:
    """A scan of the table at ``location`` that opens no file after ``deadline`` (s, monotonic clock).

    ``by`` is the column with the instant that orders the rows.
    """

    location: str
    by: str
    deadline: float

    def find(
        self, read: Callable[[DataFile], pa.Table], limit: int, wanted: pads.Expression | None = None
    ) -> ScanResult:
        """Return the newest ``limit`` rows that ``read`` returns of the data files, newest first.

        Files without ``wanted`` rows by Delta's statistics are passed over. A table that does not exist has no rows.
        Raises OSError.
        """
        rows: list[JsonObject] = []

        def moment(row: JsonObject) -> datetime:  # another writer may have left it empty
            return row[self.by] or datetime.min.replace(tzinfo=UTC)

        def take(file: DataFile) -> bool:
            if len(rows) >= limit and file.newest is not None and file.newest < moment(rows[limit - 1]):
                return False
            rows.extend(read(file).to_pylist())
            rows.sort(key=moment, reverse=True)
            return True

        extent = self.visit(take, wanted)
        return replace(extent, rows=[_shown(row) for row in rows[:limit]])

    def visit(self, visit: Callable[[DataFile], bool | None], wanted: pads.Expression | None = None) -> ScanResult:
        """Call ``visit`` with each file, the newest first, until it returns False. Raises DamagedFile, OSError."""
        with self._named_damage():
            files = self.files(wanted)
            for number, file in enumerate(files):
                if time.monotonic() > self.deadline:
                    return ScanResult(read=number, files=len(files))
                self._require_regular(file)
                if visit(file) is False:
                    break
        return ScanResult(read=len(files), files=len(files))

    def _require_regular(self, file: DataFile) -> None:
        """Raise DamagedFile if a pipe or a device is in the place of a file, because to open one waits for ever."""
        place = Path(self.location) / file.fragment.path
        kind = file_kind(place.stat().st_mode) if "://" not in self.location and place.exists() else None
        if kind is not None:
            raise DamagedFile(str(place), f"it is {kind}, no regular file")

    @contextmanager
    def _named_damage(self) -> Iterator[None]:
        from deltalake.exceptions import DeltaError  # noqa: PLC0415  an extra
        from pyarrow import ArrowException  # noqa: PLC0415

        try:
            yield
        except (DeltaError, ArrowException) as error:
            raise DamagedFile(self.location, first_line(error)[:300]) from error

    def files(self, wanted: pads.Expression | None) -> list[DataFile]:
        """Return the data files that may have ``wanted`` rows, the newest first. Raises OSError."""
        table = self._table()
        if table is None:
            return []
        dataset = table.to_pyarrow_dataset()
        newest = dict(_newest(table, self.by))
        found = [
            DataFile(fragment, dataset.schema, newest.get(fragment.path)) for fragment in dataset.get_fragments(wanted)
        ]
        return sorted(found, key=lambda file: (file.newest is None, file.newest or 0), reverse=True)

    def _table(self) -> Any:  # noqa: ANN401  of a package that may be missing
        from deltalake import DeltaTable  # noqa: PLC0415  an extra
        from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415

        try:
            return DeltaTable(self.location)
        except TableNotFoundError:
            return None


def _newest(table: Any, column: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  as above
    import pyarrow as pa  # noqa: PLC0415  of an extra

    for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        yield action["path"], action.get(f"max.{column}")


def rows_of(table: pa.Table) -> list[JsonObject]:
    """Return the rows of ``table`` as JSON: instants in epoch ms."""
    return [_shown(row) for row in table.to_pylist()]


def _shown(row: JsonObject) -> JsonObject:
    return {
        name: int(value.timestamp() * 1000) if isinstance(value, datetime) else value for name, value in row.items()
    }
