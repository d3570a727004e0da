"""``sessionizer checkpoint inspect``: the kind, progress and damage of any Spark checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessionizer.checkpoint.log_entries import source_kind
from sessionizer.cli.inspect.words import moment, size
from sessionizer.cli.places import AsJson, Master, spark_master
from sessionizer.cli.terminal import say, start_spark, translate_failures
from sessionizer.errors import DamagedCheckpoint, InvalidSpec
from sessionizer.home.roots import folder_at, is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sessionizer.checkpoint.state_files import Operator
    from sessionizer.inspection.damages import CheckpointDamage
    from sessionizer.inspection.inspect import Inspection


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
        after = "" if commit is None else f", in the next batch {_watermark(commit)}"
        yield "watermark", f"{_watermark(newest.watermark_ms)} in batch {newest.batch_id}{after}"
        for name, end in newest.ends.items():
            yield "source", f"{name}: {source_kind(end)}{'' if end is None else f', up to {json.dumps(end)}'}"
    formats = told["formats"]
    of_state = f", state format {formats['state']} ({formats['provider']}, {formats['encoding']})"
    yield "formats", f"offsets {formats['offsets']}, commits {formats['commits']}{of_state if formats['state'] else ''}"


def _watermark(ms: int) -> str:
    return moment(ms) if ms else "none"


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
    if not findings:
        return ["nothing is damaged"]
    return [line for finding in findings for line in _finding_lines(finding)]


def _finding_lines(finding: CheckpointDamage) -> list[str]:
    return [
        f"{'DAMAGED' if finding.effect.is_harmful else 'damaged'} {finding.file}: {finding.wrong}",
        f"  follows     {finding.follows}: {finding.effect}",
        f"  remedy      {finding.remedy}",
        *(f"  step        {step}" for step in finding.steps),
    ]


checkpoint = typer.Typer(no_args_is_help=True, help="Look at any checkpoint of Spark.")


@checkpoint.callback()
def _group() -> None:
    """Inspect a Spark checkpoint of any query, without changing it."""


@checkpoint.command("inspect")
def inspect_checkpoint(
    location: Annotated[str, typer.Argument(metavar="FOLDER-OR-URI", help="The query's checkpointLocation.")],
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every file of the state, not only those of the newest batch.")
    ] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Also count the rows of the state, with Spark.")] = False,
    settings: Annotated[bool, typer.Option("--settings", help="Also show the pinned settings.")] = False,
    as_json: AsJson = False,
    master: Master = None,
) -> None:
    """Describe a checkpoint and its damage. If a query cannot go on with it, the exit code is 17."""
    from sessionizer.inspection.inspect import inspect  # noqa: PLC0415  fast --help

    folder = folder_at(location, "FOLDER-OR-URI")
    found = inspect(folder, deep=deep)
    if found is None:
        raise InvalidSpec("FOLDER-OR-URI", location, "the checkpointLocation of a query: offsets, commits, metadata")
    counts = _count_rows(found, spark_master(master), local_data=is_local(folder)) if rows else None
    if as_json:
        typer.echo(json.dumps({**found.to_json(), "rows": counts}, indent=1))
    else:
        lines = inspection_lines(found, counts, settings=settings)
        typer.echo("\n".join([*lines, *finding_lines(found.findings)]))
    if found.harmful:
        raise DamagedCheckpoint(found.checkpoint.files.location, found.harmful)


def _count_rows(found: Inspection, master: str | None, *, local_data: bool) -> list[dict[str, Any]]:
    from sessionizer.spark.state.restores.table_rows import count_store_rows  # noqa: PLC0415  fast --help

    say("starting Spark to count the rows of the state")
    spark = start_spark("sessionizer checkpoint inspect", master, local_data=local_data)
    with translate_failures("checkpoint"):
        counts = count_store_rows(spark, found)
    spark.stop()
    return counts
