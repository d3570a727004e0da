"""Data sets as Parquet files, a fixed number for each batch, read in the order of their modification times."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sessionizer_bench.data import texts, visits
from sessionizer_bench.data.visits import START_MS, Visits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessionizer_bench.data.dataset import Dataset

_DESCRIPTION: Final = "dataset.json"
_OVERSUPPLY: Final = 1.1
"""Factor by which more event time is generated than needed, so that chance never leaves the last batch short."""


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """A data set on disk. ``uncounted`` batches (prefill and warm-up) come before the measured ``batches``."""

    folder: Path
    uncounted: int
    batches: int

    @property
    def files(self) -> Path:
        """Folder that the contestants read."""
        return self.folder / "files"


def stored(dataset: Dataset, cache: Path) -> StoredDataset:
    """Return the data set, and generate it first if it is not in the cache."""
    folder = cache / dataset.folder_name
    if not (folder / _DESCRIPTION).exists():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "files").mkdir(parents=True)
        uncounted = _write_all(dataset, folder / "files") + dataset.warm_up_batches
        described = {"dataset": asdict(dataset), "uncounted": uncounted, "batches": dataset.batches}
        (folder / _DESCRIPTION).write_text(json.dumps(described, indent=1))
    described = json.loads((folder / _DESCRIPTION).read_text())
    return StoredDataset(folder, described["uncounted"], described["batches"])


def only_first(whole: StoredDataset, batches: int, files_per_batch: int) -> StoredDataset:
    """Return the first ``batches`` measured batches of a data set, as links to its files."""
    if batches >= whole.batches:
        return whole
    folder = whole.folder.with_name(f"{whole.folder.name}-first-{batches}")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "files").mkdir(parents=True)
    wanted = (whole.uncounted + batches) * files_per_batch
    for file in sorted(whole.files.iterdir())[:wanted]:
        (folder / "files" / file.name).hardlink_to(file)
    return StoredDataset(folder, whole.uncounted, batches)


def _write_all(dataset: Dataset, folder: Path) -> int:
    """Write every batch, and return how many of them are prefill."""
    prefill, measured = _events(dataset)
    # Texts have their own generator, so that the measured batches are the same, byte for byte, after any prefill.
    before = _batches(prefill, dataset.prefill_batch_events)
    rng = np.random.default_rng(dataset.seed + 1)
    for index, batch in enumerate(before):
        _write(folder, index, dataset.files_per_batch, _table(rng, batch))
    rng = np.random.default_rng(dataset.seed + 2)
    for index, batch in enumerate(_batches(measured, dataset.fresh_events), start=len(before)):
        table = _table(rng, batch)
        again = [table] if dataset.sent_twice else []
        _write(folder, index, dataset.files_per_batch, pa.concat_tables([table, *again]))
    return len(before)


def _events(dataset: Dataset) -> tuple[Visits, Visits]:
    """Return the prefill and the measured events, each in the order of arrival."""
    rng = np.random.default_rng(dataset.seed)
    ordinary_events = dataset.events * (1 - dataset.background_share)
    span_ms = int(ordinary_events / dataset.traffic.events_per_second * 1000 * _OVERSUPPLY)
    ordinary, session = visits.ordinary(rng, dataset.traffic, span_ms)
    measured = ordinary.take((ordinary.at_ms >= START_MS) & (ordinary.at_ms < START_MS + span_ms))
    if dataset.background_share:
        measured = measured.and_then(visits.background_traffic(rng, dataset, int(span_ms / _OVERSUPPLY)))
    measured = _sort_by_arrival(rng, measured, dataset.traffic.disorder_s)
    prefill = visits.history(ordinary, session, dataset.history_events)
    if dataset.background:
        prefill = prefill.and_then(visits.background_prefill(rng, dataset.background))
    prefill = _sort_by_arrival(rng, prefill, dataset.traffic.disorder_s)
    return prefill, measured.take(np.arange(dataset.events))


def _sort_by_arrival(rng: np.random.Generator, events: Visits, disorder_s: float) -> Visits:
    return events.take(np.argsort(events.at_ms + rng.uniform(0, disorder_s * 1000, len(events)), kind="stable"))


def _batches(events: Visits, size: int) -> list[Visits]:
    return [events.take(np.arange(start, min(start + size, len(events)))) for start in range(0, len(events), size)]


def _table(rng: np.random.Generator, events: Visits) -> pa.Table:
    letter_u, letter_b = texts.numbered("u", events.user), texts.numbered("b", events.user)
    return pa.table(
        {
            "user_id": pa.compute.if_else(pa.array(events.background), letter_b, letter_u),
            "event_time": pa.array(events.at_ms * 1000, pa.timestamp("us", tz="UTC")),
            "event_id": texts.hexadecimal(rng, len(events), 16),
            "data": texts.requests(rng, len(events)),
            "is_last": pa.array(events.is_last),
            "timeout_s": pa.array(events.timeout_s),
        },
    )


def _write(folder: Path, batch: int, files: int, table: pa.Table) -> None:
    for part, (start, end) in enumerate(_slices(table.num_rows, files)):
        file = folder / f"batch-{batch:05d}-{part}.parquet"
        pq.write_table(table.slice(start, end - start), file)
        # Spark reads a folder in the order of modification times
        moment = START_MS / 1000 + batch * files + part
        os.utime(file, (moment, moment))


def _slices(rows: int, parts: int) -> Iterator[tuple[int, int]]:
    edges = [rows * part // parts for part in range(parts + 1)]
    yield from pairwise(edges)
