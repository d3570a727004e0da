"""``sessionizer spec``: stream specs, checked before anything starts."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sessionizer.cli.places import Home, Master, StreamOrAll, Streams, home_folder, spark_master, specs_folder
from sessionizer.cli.terminal import say, start_spark, tell, translate_failures
from sessionizer.errors import InvalidSpec, SessionizerError, UnwritablePath
from sessionizer.stream_spec.decisions import check_sql
from sessionizer.stream_spec.document.stream import stream_schema_text
from sessionizer.stream_spec.spec_folder import (
    add_place,
    find_stream,
    require_own_tables,
    spec_files,
    survey_streams,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sessionizer.stream_spec.document.stream import StreamSpec

spec = typer.Typer(no_args_is_help=True, help="Check stream specs, and print their JSON Schema for editors.")

NOT_LOOKED_AT: Final = "  (types, syntax and the source are not checked: add --deep)"


@spec.command()
def check(
    stream: StreamOrAll = None,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Also resolve columns and types, with Spark.")] = False,
    streams: Streams = None,
    home: Home = None,
    master: Master = None,
) -> None:
    """Check the specs and their SQL, with --deep by Spark as well. The exit code is that of the first error."""
    folder, platform = specs_folder(streams), home_folder(home)
    survey = survey_streams(folder)
    specs, errors = list(survey.specs.values()), list[SessionizerError](survey.problems)
    if stream:
        specs, errors = [find_stream(folder, stream)], []
    specs, sharing = _check_specs(specs, folder, lambda spec: require_own_tables(spec, survey.specs.values(), platform))
    errors += sharing
    if deep and specs:
        specs, misfits = _check_against_source(specs, folder, platform, spark_master(master))
    else:
        specs, misfits = _check_specs(specs, folder, check_sql)
    errors += misfits
    for found in specs:
        typer.echo(f"ok  {found.name}{'' if deep else NOT_LOOKED_AT}")
    if not specs and not errors:
        say(f"no stream spec is in {folder}")
    for error in errors:
        tell(error)
    if errors:
        raise typer.Exit(errors[0].exit_code)


@spec.command()
def schema(write: Annotated[Path | None, typer.Option(help="File to write instead of printing.")] = None) -> None:
    """Print the JSON Schema of stream specs."""
    if write is None:
        typer.echo(stream_schema_text(), nl=False)
        return
    try:
        write.write_text(stream_schema_text(), encoding="utf-8")
    except OSError as error:
        raise UnwritablePath(write, "the schema", error.strerror or str(error)) from error
    typer.echo(f"wrote {write}")


def _check_against_source(
    specs: list[StreamSpec], folder: Path, platform: Path, master: str | None
) -> tuple[list[StreamSpec], list[SessionizerError]]:
    """Return the specs that fit their source, as the driver sees it, and the errors of the others with their places."""
    from sessionizer.spark.ingest.source_identity import source_ids  # noqa: PLC0415
    from sessionizer.spark.sinks.examine import examine  # noqa: PLC0415  fast --help

    say("starting Spark to resolve the expressions")
    spark = start_spark("sessionizer spec check", master)

    def check_source(found: StreamSpec) -> None:
        with translate_failures(found.name):
            examine(spark, found, platform)
            source_ids(spark, found.name, found.source, platform)

    fitting = _check_specs(specs, folder, check_source)
    spark.stop()
    return fitting


def _check_specs(
    specs: list[StreamSpec], folder: Path, check_spec: Callable[[StreamSpec], None]
) -> tuple[list[StreamSpec], list[SessionizerError]]:
    """Return the specs that pass a check, and the errors of the others with their places."""
    files = {path.stem: path for path in spec_files(folder)}
    passing: list[StreamSpec] = []
    errors: list[SessionizerError] = []
    for found in specs:
        try:
            check_spec(found)
        except InvalidSpec as error:
            errors.append(add_place(error, files[found.name]))
        except SessionizerError as error:
            errors.append(error)
        else:
            passing.append(found)
    return passing, errors
