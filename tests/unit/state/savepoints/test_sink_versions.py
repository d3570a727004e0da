"""The version of a table after a batch, by logs as Delta writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from sessionizer.state.lineages.table_log import version_with_batch

if TYPE_CHECKING:
    from pathlib import Path

OURS, OTHERS = "20261121T105501-3fa9c2", "20261120T105501-111111"
ROWS = pa.table({"a": [1]})


def write(table: Path, *batches: tuple[str, int] | None) -> None:
    """A commit for each: of a lineage's batch, or of maintenance."""
    for batch in batches:
        transactions = [] if batch is None else [Transaction(app_id=batch[0], version=batch[1])]
        properties = CommitProperties(app_transactions=transactions)
        write_deltalake(str(table), ROWS, mode="append", commit_properties=properties)


@pytest.mark.parametrize(
    ("batch", "version"),
    [(9, 6), (5, 6), (4, 4), (3, 4), (2, 4), (1, 1), (0, 1)],
)
def test_it_is_the_last_without_later_batches(tmp_path: Path, batch: int, version: int) -> None:
    write(tmp_path, None, (OTHERS, 40), (OURS, 2), None, None, (OURS, 5), None)
    assert version_with_batch(tmp_path, OURS, batch) == version
    assert DeltaTable(str(tmp_path)).version() == 6


def test_a_table_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert version_with_batch(tmp_path / "nothing", OURS, 3) is None


def test_it_looks_back_no_further_than_it_must(tmp_path: Path) -> None:
    """A table may have thousands of commits, of which the stream wrote the last few after the batch."""
    write(tmp_path, (OURS, 1), (OURS, 2), (OURS, 3))
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text('"txn" that nobody can read')
    assert version_with_batch(tmp_path, OURS, 2) == 1
