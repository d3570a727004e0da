"""``sessionizer checkpoint inspect``: the kind, progress and damage of any Spark checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessionizer.cli.inspect.inspection_words import finding_lines, inspection_lines
from sessionizer.cli.places import AsJson, Master, spark_master
from sessionizer.cli.terminal import say, start_spark, translate_failures
from sessionizer.errors import DamagedCheckpoint, InvalidSpec
from sessionizer.home.roots import folder_at, is_local

if TYPE_CHECKING:
    from sessionizer.inspection.inspect import Inspection

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
