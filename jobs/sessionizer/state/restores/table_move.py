"""The tables of a stream at another data root: copied whole, for a restore that resumes there (docs/adr/0114).

A Delta table names its files by their places in its own folder. So a copy of the folder is the table, with its history
and with its record of the batches that wrote it. The original stays as it is.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec
from sessionizer.home.data_access import data_exists, make_data_folder, size_of
from sessionizer.home.data_files import copy_file, files_below, relative_name, remove_tree, rename_folder
from sessionizer.home.data_reach import translate_refusal
from sessionizer.home.roots import uri_of
from sessionizer.lineage.data_owner import claim_data, require_own_data

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.roots import DataPath
    from sessionizer.home.stream_home import StreamHome

FLAG: Final = "--move-to"
_UNDER_WAY: Final = ".under-way"


@dataclass(frozen=True, slots=True)
class TableMove:
    """Move of the ``tables`` of a stream from the data of ``left`` to the data of ``taken``."""

    left: StreamHome
    taken: StreamHome
    tables: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield the plan of the move as text, line by line."""
        yield f"  data  moves from {root_of(self.left)} to {root_of(self.taken)}. The old data root is kept"
        for table in self.tables:
            found = list(files_below(self.left.table(table)))
            size = f"{count_text(len(found), 'file')}, {sum(map(size_of, found)) / 1_000_000:,.1f} MB"
            yield f"  {table}: {size}, copied to {uri_of(self.taken.table(table))}"

    def copy(self, permit: Callable[[], None]) -> None:
        """Copy the tables to their new place. Complete copies of a killed run are kept as they are.

        Raises DataOwned, UnwritablePath, DiskFull, and LeaseLost.
        """
        self.taken.prepare_data()
        claim_data(self.taken)
        for table in self.tables:
            _copy(self.left.table(table), self.taken.table(table), permit)

    def remove_copies(self, permit: Callable[[], None]) -> None:
        """Remove the copies. Raises LeaseLost first, because another run may own them by now."""
        permit()
        for table in self.tables:
            remove_tree(self.taken.table(table))


def move_to(home: StreamHome, root: DataPath | None, written: Collection[str], *, begun: bool) -> TableMove | None:
    """Plan the move of the stream of ``home`` to the data root ``root``, None if its data is there already.

    ``written``: the tables that batches write into its data. Reads only. Raises DataOwned if another home has the
    stream's data there, InvalidSpec if a table is in the way, unless a move was ``begun``.
    """
    taken = replace(home, data_root=root)
    if root_of(taken) == root_of(home):
        return None
    require_own_data(taken)
    there = tuple(table for table in written if data_exists(home.table(table)))
    in_the_way = [uri_of(taken.table(table)) for table in there if data_exists(taken.table(table))]
    if in_the_way and not begun:
        raise InvalidSpec(
            FLAG, root_of(taken), f"a data root without tables of the stream, because there is {in_the_way[0]}"
        )
    return TableMove(home, taken, there)


def move_begun(record: OperationRecord) -> str | None:
    """Return the data root that a restore was approved to move to. A restore that was begun keeps it."""
    words = shlex.split(record.options)
    return words[words.index(FLAG) + 1] if FLAG in words else None


def root_of(home: StreamHome) -> str:
    """Format the data root as text."""
    return str(home.platform) if home.data_root is None else uri_of(home.data_root)


def _copy(table: DataPath, target: DataPath, permit: Callable[[], None]) -> None:
    """Copy a table whole before its name appears.

    A rename is not one step everywhere, so an incomplete copy is made anew.
    """
    if data_exists(target):
        if _content(target) == _content(table):
            return
        permit()  # a run that was overtaken finds tables here to which the stream writes
        remove_tree(target)
    part = target.parent / f".{target.name}{_UNDER_WAY}"
    try:
        while not _copy_files(table, part, permit):
            pass
        rename_folder(part, target)
    except OSError as error:
        raise translate_refusal(target, "a copy of a table", error) from error


def _copy_files(table: DataPath, part: DataPath, permit: Callable[[], None]) -> bool:
    """Copy the files. Whether none came or went meanwhile: a compaction may replace some while the stream is stopped.

    Raises OSError, LeaseLost.
    """
    remove_tree(part)
    before = _content(table)
    try:
        for name in before:
            permit()
            copy = part / name
            make_data_folder(copy.parent, exist_ok=True)
            copy_file(table / name, copy)
    except FileNotFoundError:
        if _content(table) == before:
            raise
    return _content(table) == before


def _content(folder: DataPath) -> dict[str, int]:
    """Return the length in bytes of each file."""
    return {relative_name(file, folder): size_of(file) for file in files_below(folder)}
