"""Texts about the contents of a state, and the command that inspects a checkpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.cells import cell_len, set_cell_size

from sessionizer.checkpoint.log_entries import source_kind
from sessionizer.checkpoint.state_files import Operator
from sessionizer.cli.places import Options, shares
from sessionizer.cli.terminal import working_spark
from sessionizer.counts import count_text
from sessionizer.errors import DamagedCheckpoint, InvalidSpec
from sessionizer.home.clock import moment_text
from sessionizer.home.roots import DataPath, folder_at
from sessionizer.state.lineages.committed_batch import CommittedBatch

if TYPE_CHECKING:
    from sessionizer.core.key_group.contents import GroupContents, KeyWeight
    from sessionizer.inspection.damages import CheckpointDamage
    from sessionizer.inspection.inspect import Inspection


NEVER: Final = "never"
BETWEEN: Final = "   "
"""What stands between two columns."""
_WIDEST: Final = 100
"""Places of a terminal that a cell takes at most."""
_CONTROLS: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that control a terminal, or turn the direction of its text. The end of a line is none."""
_OF_EVENT: Final = ("event_time", "event_id", "closes")
_GROUP_COLUMNS: Final = ("group", "events", "keys", "sessions", "blobs", "stored", "decoded", "first end", "timer")


def moment(ms: int | None) -> str:
    """Format epoch ms as UTC, to the second."""
    return NEVER if ms is None else moment_text(ms)


def size(count: int) -> str:
    """Format a number of bytes, in the unit that fits."""
    for unit, factor in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"


def table_text(columns: Sequence[str], rows: Iterable[Iterable[str]], left: Sequence[str] = ()) -> str:
    """Lay rows out beneath their columns, text in ``left`` ones. A cell of many lines is cut to its first."""
    heading, *cells = padded([columns, *([*map(one_line, row)] for row in rows)], left)
    return "\n".join(table_lines(heading, cells))


def padded(rows: Sequence[Sequence[str]], left: Collection[str] = ()) -> Iterator[list[str]]:
    """Yield the rows with cells as wide as the widest of their column, text in ``left`` ones.

    The first row names the columns. A cell is cut at ``_WIDEST`` places of a terminal.
    """
    widths = [min(max(map(cell_len, column)), _WIDEST) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [_cut(cell, width) for cell, width in zip(row, widths, strict=True)]
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        yield [cell + gap if name in left else gap + cell for name, cell, gap in zip(rows[0], cells, gaps, strict=True)]


def table_lines(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Join padded cells to lines, with a rule beneath the heading."""
    first = BETWEEN.join(heading)
    return [f" {line}".rstrip() for line in (first, "─" * cell_len(first), *map(BETWEEN.join, rows))]


def _cut(cell: str, width: int) -> str:
    return cell if cell_len(cell) <= width else f"{set_cell_size(cell, width - 1)}…"


def printable(text: str) -> str:
    """Replace each character that controls the terminal by a mark. A value of an event may have some."""
    return _CONTROLS.sub("�", text)


def one_line(text: str) -> str:
    """Return the first line that is not blank, ``printable``, marked if others follow. A stack trace has many."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(f"{lines[0]} …" if len(lines) > 1 else "".join(lines))


def where_line(found: CommittedBatch) -> str:
    """Name the batch that the following lines describe."""
    return f"stream {found.stream}, lineage {found.lineage}, batch {found.batch_id} of {moment(found.batch_at)}"


def where_json(found: CommittedBatch) -> dict[str, Any]:
    """Return the batch as JSON."""
    where = {"stream": found.stream, "lineage": found.lineage, "batch_id": found.batch_id}
    return {**where, "batch_at": found.batch_at, "watermark_ms": found.watermark_ms}


def groups_text(contents: Mapping[int, GroupContents], timers: Mapping[int, Sequence[int]], count: int) -> str:
    """List the key groups with the most bytes."""
    heaviest = sorted(contents.values(), key=lambda each: (-each.bytes, each.key_group))[:count]
    rows = [
        [
            *(f"{number:,}" for number in (each.key_group, each.events, each.keys, each.sessions, each.blobs)),
            size(each.blob_bytes),
            size(each.bytes),
            moment(each.first_due_ms),
            ", ".join(map(moment, timers.get(each.key_group, ()))) or "none",
        ]
        for each in heaviest
    ]
    return table_text(_GROUP_COLUMNS, rows)


def keys_text(keys: Sequence[KeyWeight]) -> str:
    """List the keys with the most bytes."""
    rows = [[each.key, str(each.key_group), f"{each.events:,}", size(each.bytes)] for each in keys]
    return table_text(("key", "group", "events", "decoded"), rows, left=("key",))


def session_lines(session: Mapping[str, Any]) -> list[str]:
    """Describe an open session with its events."""
    ends = f"would end {_clock(session.get('would_end_at'))} ({session['would_close_reason']})"
    client = f", client {session['client']}" if "client" in session else ""
    events, since = count_text(session["event_count"], "event"), _clock(session["started_at"])
    head = f"session of {events} since {since}{client}: {ends}"
    return [head, *(f"  {_event_line(event)}" for event in session["events"])]


def _event_line(event: Mapping[str, Any]) -> str:
    payload = {name: value for name, value in event.items() if name not in _OF_EVENT}
    closes = "  closes" if event.get("closes") else ""
    return f"{_clock(event.get('event_time'))}  {event['event_id']}{closes}  {json.dumps(payload, ensure_ascii=False)}"


def _clock(text: str | None) -> str:
    """Format ISO 8601 to the millisecond, like the other moments of the output."""
    return NEVER if text is None else f"{text.replace('T', ' ').rstrip('Z')[:23]} UTC"


def inspection_lines(found: Inspection, counts: Sequence[dict[str, Any]] | None, *, settings: bool) -> list[str]:
    """Return the lines about a checkpoint, all but its damage."""
    lines = [found.checkpoint.files.location, *(f"  {name:<11} {value}" for name, value in _facts(found))]
    for operator in found.checkpoint.operators.values():
        lines += [f"  operator {operator.number}  {operator.common_name} ({operator.name})"]
        lines += [f"    {name:<11} {value}" for name, value in _operator_facts(found, operator)]
    if not found.checkpoint.operators:
        lines.append("  no operator of it keeps state")
    for each in counts or ():
        variable = f", variable {each['variable']}" if each.get("variable") else ""
        said = f"{each['rows']:,}" if each["rows"] is not None else f"cannot be counted: {each['why']}"
        lines.append(f"  rows        operator {each['operator']}, store {each['store']}{variable}: {said}")
    if settings:
        lines += ["  settings that are pinned", *(f"    {name}={value}" for name, value in found.settings.items())]
    return lines


def _facts(found: Inspection) -> Iterator[tuple[str, str]]:
    told = found.to_json()
    yield "query", told["query_id"] or "unknown"
    yield "batches", _batches(found)
    newest, commit = found.checkpoint.newest, told["next_watermark_ms"]
    if newest is not None:
        yield "clock", moment(newest.at_ms)
        at, then = (moment(ms) if ms else "none" for ms in (newest.watermark_ms, commit))
        yield "watermark", f"{at} in batch {newest.batch_id}{'' if commit is None else f', in the next batch {then}'}"
        for name, end in newest.ends.items():
            yield "source", f"{name}: {source_kind(end)}{'' if end is None else f', up to {json.dumps(end)}'}"
    formats = told["formats"]
    of_state = f", state format {formats['state']} ({formats['provider']}, {formats['encoding']})"
    yield "formats", f"offsets {formats['offsets']}, commits {formats['commits']}{of_state if formats['state'] else ''}"


def _batches(found: Inspection) -> str:
    told = found.to_json()
    begun, committed = told["batches"], told["committed"]
    if begun["begun"] is None:
        return "none was begun"
    kept = f"{begun['first']} to {begun['begun']} are kept"
    if committed["last"] is None:
        return f"{kept}, none is committed"
    if committed["last"] < begun["begun"]:
        return (
            f"{kept}, {committed['last']} is committed, and {begun['begun']} was begun and runs again at the next start"
        )
    return f"{kept}; {committed['last']} is over"


def _operator_facts(found: Inspection, operator: Operator) -> Iterator[tuple[str, str]]:
    stores = [store.name for store in operator.stores]
    of_stores = "" if stores == ["default"] else f", stores {', '.join(stores)}"
    yield "partitions", f"{operator.partitions}{of_stores}"
    versions = found.versions_of(operator.number)
    kept = "" if versions is None else f", after batches {max(versions[0], 0)} to {versions[1]}"
    yield "state", f"{size(found.bytes_of(operator.number))} of files{kept}"
    for variable in operator.properties.get("stateVariables", ()):
        ttl = ", with a time to live" if variable.get("ttlEnabled") else ""
        yield "variable", f"{variable['stateName']} ({variable['stateVariableType']}{ttl})"
    told = {name: value for name, value in operator.properties.items() if name != "stateVariables"}
    if told:
        yield "says", ", ".join(f"{name} {value}" for name, value in told.items())


def finding_lines(findings: Sequence[CheckpointDamage]) -> list[str]:
    """Return the lines about the damage. Without damage a single line says so."""
    lines = []
    for finding in findings:
        lines += [
            f"{'DAMAGED' if finding.effect.is_harmful else 'damaged'} {finding.file}: {finding.wrong}",
            f"  follows     {finding.follows}: {finding.effect}",
            f"  remedy      {finding.remedy}",
            *(f"  step        {step}" for step in finding.steps),
        ]
    return lines or ["nothing is damaged"]


checkpoint = typer.Typer(no_args_is_help=True, help="Look at any checkpoint of Spark.")


@checkpoint.callback()
def _group() -> None:
    """Inspect a Spark checkpoint of any query, without changing it."""


@checkpoint.command("inspect")
@shares("as_json", "master")
def inspect_checkpoint(
    location: Annotated[str, typer.Argument(metavar="FOLDER-OR-URI", help="The query's checkpointLocation.")],
    at: Options,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every file of the state, not only those of the newest batch.")
    ] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Also count the rows of the state, with Spark.")] = False,
    settings: Annotated[bool, typer.Option("--settings", help="Also show the pinned settings.")] = False,
) -> None:
    """Describe a checkpoint and its damage. If a query cannot go on with it, the exit code is 17."""
    from sessionizer.inspection.inspect import inspect  # noqa: PLC0415  fast --help

    folder = folder_at(location, "FOLDER-OR-URI")
    found = inspect(folder, deep=deep)
    if found is None:
        raise InvalidSpec("FOLDER-OR-URI", location, "the checkpointLocation of a query: offsets, commits, metadata")
    counts = _count_rows(found, at.master, folder) if rows else None
    lines = [*inspection_lines(found, counts, settings=settings), *finding_lines(found.findings)]
    at.show({**found.to_json(), "rows": counts}, lines)
    if found.harmful:
        raise DamagedCheckpoint(found.checkpoint.files.location, found.harmful)


def _count_rows(found: Inspection, master: str | None, folder: DataPath) -> list[dict[str, Any]]:
    from sessionizer.spark.state.restores.table_rows import count_store_rows  # noqa: PLC0415  fast --help

    line = "starting Spark to count the rows of the state"
    with working_spark("inspect", "checkpoint", master, line, folder) as spark:
        return count_store_rows(spark, found)
