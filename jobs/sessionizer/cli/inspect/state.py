"""``sessionizer state``: the batches that a stream still keeps, and the open events after each."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Final

import typer

from sessionizer.checkpoint.files import Files, files_of_batch, read_consistently
from sessionizer.checkpoint.log_entries import EVENTS, CommitEntry, OffsetEntry, source_kind
from sessionizer.checkpoint.state_files import StorePlace, VersionFile, version_files
from sessionizer.cli.inspect.batch_state import BatchState, compare, key_in_files, require_group
from sessionizer.cli.inspect.words import moment, printable, size, table_text, where_json
from sessionizer.cli.places import Options, Stream, shares
from sessionizer.cli.terminal import say, working_spark
from sessionizer.counts import count_text
from sessionizer.errors import BatchOutrun, InvalidSpec
from sessionizer.home.names import LATE_EVENTS, QUARANTINE, SESSIONS
from sessionizer.home.roots import folder_at
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.state.lineages.committed_batch import CommittedBatch, find_retained_batch
from sessionizer.state.lineages.table_changes import rows_of_batches
from sessionizer.stream_spec.spec_folder import parse_recorded_spec


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """Batch with its clock and watermark (epoch ms), and the watermark of the next one, None if it is not over.

    ``read``: by source, the amount that it read, in the unit of that source. None if its offsets do not tell.
    ``change_bytes`` were written to the state, ``whole_bytes`` as snapshots of it.
    """

    batch_id: int
    at_ms: int
    watermark_ms: int
    next_watermark_ms: int | None
    read: Mapping[str, str | None]
    change_bytes: int
    whole_bytes: int

    @property
    def is_over(self) -> bool:
        """Whether it was committed."""
        return self.next_watermark_ms is not None


def list_kept_batches(
    offsets: Mapping[int, OffsetEntry],
    commits: Mapping[int, CommitEntry],
    stores: Mapping[StorePlace, Sequence[VersionFile]],
    files: Files,
) -> list[KeptBatch]:
    """Return every batch with readable offsets, the oldest first."""
    sizes: dict[tuple[int, bool], int] = {}
    for there in stores.values():
        for file in there:
            key = (file.version - 1, file.is_whole)
            sizes[key] = sizes.get(key, 0) + files.sizes.get(file.name, 0)
    entries = [None, *(offsets[batch] for batch in sorted(offsets))]
    return [
        KeptBatch(
            batch_id=now.batch_id,
            at_ms=now.at_ms,
            watermark_ms=now.watermark_ms,
            next_watermark_ms=commits[now.batch_id].next_watermark_ms if now.batch_id in commits else None,
            read=_read_of(before, now),
            change_bytes=sizes.get((now.batch_id, False), 0),
            whole_bytes=sizes.get((now.batch_id, True), 0),
        )
        for before, now in pairwise(entries)
        if now is not None
    ]


def _read_of(before: OffsetEntry | None, now: OffsetEntry) -> dict[str, str | None]:
    if now.batch_id and (before is None or before.batch_id != now.batch_id - 1):
        return dict.fromkeys(now.ends)
    return {name: advance(before.ends.get(name) if before else None, end) for name, end in now.ends.items()}


def advance(before: Any, now: Any) -> str | None:  # noqa: ANN401  JSON
    """Return how far a source came from one end to another: parts of its list for files, records for Kafka."""
    kind = source_kind(now)
    if now == before:
        return "nothing"
    if kind == "files":
        return "files"
    if kind == "Kafka" and before is not None:
        return count_text(_records(now) - _records(before), "record")
    if kind == "Delta":
        return f"up to version {now.get('reservoirVersion')}"
    return None


def _records(end: Mapping[str, Mapping[str, int]]) -> int:
    return sum(int(offset) for topic in end.values() for offset in topic.values())


state = typer.Typer(no_args_is_help=True, help="Look at the open sessions of a stream. Nothing is changed.")

Batch = Annotated[int | None, typer.Option(help="A kept batch. Default: the newest committed one.")]


@state.command()
@shares("as_json", "home", "data", "master")
def show(
    stream: Stream,
    at: Options,
    *,
    key: Annotated[str | None, typer.Option(help="Only the open sessions of this key, event by event.")] = None,
    group: Annotated[int | None, typer.Option(help="Only this key group, with its heaviest keys.", min=0)] = None,
    batch: Batch = None,
    heaviest: Annotated[int, typer.Option(help="Number of the heaviest groups and keys.", min=1)] = 10,
) -> None:
    """Show the open events after a batch: in all, of one key group, or of one key. The stream may run on."""
    if key is not None and group is not None:
        raise InvalidSpec("--group", group, "Omit it, because --key names the group already")
    where = at.known_home_of(stream)
    found = find_retained_batch(where, batch)  # reports an error before Spark starts
    require_group(found, group)
    shown_lines = key_in_files(found, key) if key is not None else None
    if shown_lines is None:
        with working_spark("state", stream, at.master, f"starting Spark to look into {stream}", where.data) as spark:
            started = time.monotonic()
            kept = BatchState.of(spark, find_retained_batch(where, batch))
            found = kept.found
            shown_lines = kept.key(key) if key is not None else kept.groups(group, heaviest)
            found.require_unchanged()
            say(f"read in {time.monotonic() - started:.1f} s")
    shown, lines = shown_lines
    at.show({**where_json(found), **shown}, [printable("\n".join(lines))])


state.command()(compare)

_TABLES: Final = (SESSIONS, LATE_EVENTS, QUARANTINE)
_NOTHING: Final = "–"


@state.command()
@shares("as_json", "home", "data", "master")
def timeline(
    stream: Stream,
    at: Options,
    *,
    last: Annotated[int, typer.Option(help="Number of the newest batches.", min=1)] = 20,
    with_open: Annotated[
        bool,
        typer.Option(
            "--open", help="Also count the open events after each batch, with Spark: about a second per batch."
        ),
    ] = False,
    lineage: Annotated[str | None, typer.Option(help="Lineage. Default: the active one.")] = None,
) -> None:
    """Show the kept batches: their times, rows read and written, and watermarks. The stream may run on."""
    where = at.known_home_of(stream)
    found = find_retained_batch(where, lineage=lineage)
    from sessionizer.inspection.checkpoint_read import read_logs  # noqa: PLC0415  fast --help

    every = read_consistently(
        found.checkpoint, lambda files: list_kept_batches(*read_logs(files), version_files(files), files)
    )
    batches = [_count_files(found, batch) for batch in every[-last:]]
    rows = _rows(where, found, batches)
    held = _open(where, found, batches, at.master) if with_open else {}
    told = [{**asdict(each), "rows": rows.get(each.batch_id), "open": held.get(each.batch_id)} for each in batches]
    lines = [f"stream {stream}, lineage {found.lineage}", _text(batches, rows, held, with_open=with_open)]
    at.show({"stream": stream, "lineage": found.lineage, "batches": told}, lines)


def _rows(where: StreamHome, found: CommittedBatch, batches: Sequence[KeptBatch]) -> Mapping[int, Mapping[str, int]]:
    spec = parse_recorded_spec(found.spec, SPEC_FILE.of(where, found.lineage).path)
    places = where.table_locations(spec.sink.path)
    rows: dict[int, dict[str, int]] = {batch.batch_id: {} for batch in batches}
    for name in _TABLES:
        written = rows_of_batches(folder_at(places[name]), found.lineage, min(rows, default=0))
        for batch, count in written.items():
            if batch in rows:
                rows[batch][name] = count
    return rows


def _count_files(found: CommittedBatch, batch: KeptBatch) -> KeptBatch:
    """Set the number of files that the batch read, if it read files, whose offsets count lists of files."""
    if batch.read.get(EVENTS) != "files":
        return batch
    try:
        files = len(files_of_batch(found.checkpoint, batch.batch_id))
    except OSError:  # the list before it is gone by now
        return batch
    return replace(batch, read={**batch.read, EVENTS: count_text(files, "file")})


def _open(
    where: StreamHome, found: CommittedBatch, batches: Sequence[KeptBatch], master: str | None
) -> dict[int, dict[str, Any]]:
    """Count the open sessions, events and bytes after each batch, except one that the stream outruns meanwhile."""
    held: dict[int, dict[str, Any]] = {}
    line = f"starting Spark to look into {count_text(len(batches), 'batch')} of {where.name}"
    with working_spark("state", where.name, master, line, where.data) as spark:
        for batch in (each for each in batches if each.is_over):
            with suppress(BatchOutrun):
                kept = BatchState.of(spark, find_retained_batch(where, batch.batch_id, found.lineage))
                groups = kept.groups(None, 1)[0]["groups"]
                counts = {name: sum(group[name] for group in groups) for name in ("sessions", "events", "bytes")}
                held[batch.batch_id] = counts
    return held


def _text(
    batches: Sequence[KeptBatch],
    rows: Mapping[int, Mapping[str, int]],
    held: Mapping[int, Mapping[str, Any]],
    *,
    with_open: bool,
) -> str:
    lines = []
    for batch in batches:
        written, now = rows.get(batch.batch_id, {}), held.get(batch.batch_id)
        lines.append(
            [
                str(batch.batch_id) if batch.is_over else f"{batch.batch_id} (not over)",
                moment(batch.at_ms),
                moment(batch.watermark_ms if batch.next_watermark_ms is None else batch.next_watermark_ms),
                batch.read.get(EVENTS) or _NOTHING,
                *(f"{written.get(name, 0):,}" for name in _TABLES),
                size(batch.change_bytes),
                size(batch.whole_bytes) if batch.whole_bytes else _NOTHING,
                *(f"{now[name]:,}" if now else _NOTHING for name in ("sessions", "events") if with_open),
            ]
        )
    columns = ["batch", "begun", "watermark", "read", *_TABLES, "state changes", "snapshots"]
    return table_text([*columns, *(["open sessions", "open events"] if with_open else [])], lines, left=("read",))
