"""``sessionizer history`` and ``report``: the sessions of a history, and the daily report of sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessionizer.cli.places import Options, Stream, existing_result, require_local, savepoints_folder, shares
from sessionizer.cli.terminal import confirm, say, working_spark
from sessionizer.control.records.operation_record import pending_operation, require_no_operation
from sessionizer.control.status.driver_status import read_driver
from sessionizer.counts import count_is, count_text
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.home.home_identity import owner_name
from sessionizer.home.names import SESSIONS, SESSIONS_DAILY, STREAM_HISTORY
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.scratch import give_way
from sessionizer.state.compaction.plan import (
    COMPACTION_FILE,
    CompactionPlan,
    CompactionRecord,
    kept_days,
    plan_compaction,
    remove_checkpoint,
)
from sessionizer.state.savepoints.schedule import prune_scheduled
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sessionizer.spark.history.read import EventHistory
    from sessionizer.spark.sinks.compaction import TablePlan, TableResult


@shares("streams", "home", "master")
def history(
    stream: Stream,
    at: Options,
    *,
    folder: Annotated[
        Path,
        typer.Option("--input", help="Folder of the history: files as the source, or Delta.", callback=require_local),
    ],
    until: Annotated[
        str | None, typer.Option(help="Only sessions that are final at this time (ISO 8601, UTC by default).")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="New folder for the Delta tables. Default: print only counts.", callback=require_local),
    ] = None,
) -> None:
    """Sessionize a history by the stream's rules, all at once. The stream itself is not changed."""
    spec, until_ms = at.spec_of(stream), None if until is None else moment_of(until, "--until")
    if not folder.is_dir():
        raise InvalidSpec("--input", str(folder), "an existing folder")
    if to is not None and to.exists():
        raise existing_result(to)
    from sessionizer.spark.history.read import read_event_history  # noqa: PLC0415  fast --help
    from sessionizer.spark.sinks.write import few_blobs_at_a_time  # noqa: PLC0415  fast --help

    started = time.monotonic()
    with working_spark("history", stream, at.master, "starting Spark") as spark, few_blobs_at_a_time(spark):
        say("reading the history")
        found = read_event_history(spark, spec, folder.absolute(), at.platform)
        refused = found.figures.refused
        typer.echo(f"events       {found.figures.events:>12,}")
        typer.echo(f"quarantined  {sum(refused.values()):>12,}")
        for reason, count in sorted(refused.items()):
            typer.echo(f"  {reason:<22} {count:>12,}")
        _write(found, until_ms, to)
    say(f"done in {time.monotonic() - started:.0f} s")


def _write(found: EventHistory, until_ms: int | None, to: Path | None) -> None:
    say("sessionizing")
    taken = found.take(until_ms)
    sessions = _write_table(found.sessions(taken), to, "sessions")
    counts = {row.close_reason: row["count"] for row in sessions.groupBy("close_reason").count().collect()}
    typer.echo(f"sessions     {sum(counts.values()):>12,}")
    for reason, count in sorted(counts.items()):
        typer.echo(f"  {reason:<22} {count:>12,}")
    if until_ms is not None:
        say("collecting open sessions")
        typer.echo(f"open events  {_write_table(found.open_events(taken), to, 'open_events').count():>12,}")


def _write_table(frame: DataFrame, to: Path | None, name: str) -> DataFrame:
    if to is None:
        return frame
    location = str(to.absolute() / name)
    frame.write.format("delta").mode("errorifexists").save(location)
    typer.echo(f"wrote {location}")
    return frame.sparkSession.read.format("delta").load(location)


@shares("streams", "home", "data", "master")
def report(stream: Stream, at: Options) -> None:
    """Update sessions_daily for the days that got sessions, and add the complete hours to stream_history.

    While a command changes the tables, nothing is reported.
    """
    spec, where = at.spec_of(stream), at.home_of(stream)
    pending = pending_operation(where)
    if pending is not None:  # the tables may be between two paths
        typer.echo(f"{pending.pending_error()}. The next report after it has the days")
        return
    from sessionizer.spark.history.report import DailyReport, append_history  # noqa: PLC0415
    from sessionizer.spark.sinks.tables import name_tables  # noqa: PLC0415

    spec = spec_in_force(where, spec)
    locations = where.table_locations(spec.sink.path)
    with working_spark("report", stream, at.master, f"starting Spark for the report of {stream}", where.data) as spark:
        daily = DailyReport(
            spark,
            sessions=locations[SESSIONS],
            daily=locations[SESSIONS_DAILY],
            measures=tuple(spec.measures),
            bookmarks=where.bookmarks,
            kept_from=kept_days(spec, epoch_ms()).get(SESSIONS),
        )
        done = daily.refresh()
        told = append_history(spark, where, locations[STREAM_HISTORY], epoch_ms())
        name_tables(spark, spec.sink.table, locations, owner_name(where.name, where.control_base))
    typer.echo(f"added {count_text(told, 'row')}: {locations[STREAM_HISTORY]}")
    if done is None:
        typer.echo(f"stream {stream} has no table of sessions yet: nothing to report")
        return
    how = "rebuilt" if done.rebuilt else "refreshed"
    written = f"{count_text(len(done.dates), 'day')}, {count_text(done.rows, 'row')}"
    typer.echo(f"{how} {written}: {locations[SESSIONS_DAILY]}")


MEGABYTE = 1_000_000


@shares("as_json", "streams", "home", "data", "master")
def compact(
    stream: Stream,
    at: Options,
    *,
    elsewhere: Annotated[
        list[str] | None,
        typer.Option("--in", help="Another folder or URI with savepoints, whose table versions are kept, too."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run the plan without asking.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only show the plan.")] = False,
) -> None:
    """Merge small files of the tables, and delete old files, checkpoints and savepoints. The stream may run on.

    No row changes. Files that a savepoint of the last 30 days needs stay. The plan is shown first.
    """
    spec, where, now = at.spec_of(stream), at.home_of(stream), epoch_ms()
    made = plan_compaction(where, spec, [savepoints_folder(where, each) for each in elsewhere or ()], now)
    if read_driver(where, now).state.is_live:
        give_way()
    with working_spark("compact", stream, at.master, "starting Spark", where.data) as spark:
        from sessionizer.spark.sinks.compaction import plan_tables  # noqa: PLC0415  fast --help

        tables = plan_tables(spark, made.tables, made.retention)
        planned: dict[str, Any] = {"stream": made.stream, "retention": made.retention.to_json()}
        for kind, each in (("tables", tables), ("checkpoints", made.checkpoints), ("savepoints", made.savepoints)):
            planned[kind] = [asdict(row) for row in each]
        told: dict[str, Any] = {"plan": planned, "tables": None}
        if not at.as_json:
            typer.echo("\n".join(plan_lines(made, tables)))
        if not plan:
            if not yes:
                confirm("Run the plan?")
            told["tables"] = [asdict(result) for result in _run(spark, where, spec, made, tables)]
            if tables:
                COMPACTION_FILE.of(where).write(CompactionRecord(at=now))
    at.show(told, ())


def _run(
    spark: SparkSession, home: StreamHome, spec: StreamSpec, made: CompactionPlan, tables: Sequence[TablePlan]
) -> list[TableResult]:
    from sessionizer.spark.sinks.compaction import compact_table  # noqa: PLC0415  fast --help

    results = []
    for table in tables:
        if table.skipped is None:
            require_no_operation(home)  # one that began meanwhile may copy the tables
            results.append(compact_table(spark, table, made.retention))
            say(result_line(results[-1]))
    if spec.savepoints.every_ms is not None:
        prune_scheduled(home, spec.savepoints, say)
    for lineage in (each.id for each in made.checkpoints if each.goes):
        kept = remove_checkpoint(home, lineage, spec.compaction.keep_ms, epoch_ms())
        say(f"removed checkpoint {lineage}" if kept is None else f"kept checkpoint {lineage} after all: {kept}")
    return results


def plan_lines(made: CompactionPlan, tables: Sequence[TablePlan]) -> Iterator[str]:
    """Yield the plan as text, line by line."""
    for table in tables:
        if table.found is None:
            yield f"skip    table {table.name}: {table.skipped}"
        else:
            merge = "merge  " if table.merges else "keep   "
            found = table.found
            yield (
                f"{merge} table {table.name}  {count_text(found.files, 'file')}, {found.bytes / MEGABYTE:,.1f} MB. "
                f"{count_is(found.old_files, 'old file')} deleted"
            )
        if table.expired:
            expired = f"{count_is(table.expired, 'row')} deleted, of days before {table.kept_from}"
            yield f"expire  table {table.name}  {expired}"
        if table.warning is not None:
            yield f"warning table {table.name}: {table.warning}"
    retention = made.retention
    yield f"keep    old files of the last {retention.hours:,} hours: {retention.because}"
    if retention.is_short:
        yield "warning compaction.keep is shorter than Delta's 7 days: a query that takes longer than it fails"
    for savepoint in retention.out_of_reach:
        yield f"warning savepoint {savepoint} is older than the log of the tables: it brings no deleted rows back"
    for kind, verdicts in (("checkpoint", made.checkpoints), ("savepoint", made.savepoints)):
        for verdict in verdicts:
            yield f"{'remove' if verdict.goes else 'keep':<7} {kind} {verdict.id}: {verdict.because}"


def result_line(result: TableResult) -> str:
    """Describe the result for a table in one line."""
    deleted = f"{count_text(result.deleted, 'old file')} deleted"
    if result.overtaken:
        return f"{result.name}: not merged, because a command changed it meanwhile. {deleted}"
    return f"{result.name}: {count_text(result.files_before, 'file')} before, {result.files:,} now, {deleted}"
