"""``sessionizer savepoint create``, ``list`` and ``show``: the open events of a stream, kept as tables."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sessionizer.cli.inspect.words import finding_lines
from sessionizer.cli.places import (
    AsJson,
    Data,
    Home,
    Master,
    Stream,
    Streams,
    existing_result,
    require_known_stream,
    stream_home,
)
from sessionizer.cli.run import stop
from sessionizer.cli.savepoint_words import (
    Folder,
    Id,
    change_line,
    contents_line,
    savepoint_facts,
    savepoint_json,
    savepoint_line,
    savepoint_list,
    savepoints_folder,
)
from sessionizer.cli.terminal import confirm, say, working_spark
from sessionizer.control.lease import read_lease
from sessionizer.control.openlineage.reporter import RunReporter, command_run
from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.control.status.driver_status import read_driver
from sessionizer.counts import count_is, count_text
from sessionizer.errors import StreamRunsAgain, UnusableSavepoint
from sessionizer.home.clock import DAY, epoch_ms
from sessionizer.home.data_files import data_exists
from sessionizer.home.names import check_identifier, mint_id
from sessionizer.home.roots import folder_at, uri_of
from sessionizer.home.stream_home import CHECKPOINT, SavepointHome, StreamHome
from sessionizer.launch.scratch import give_way
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import (
    Policy,
    complete_savepoint,
    keep_from_removal,
    list_savepoints,
    newest_that_stay,
    plan_removal,
    remove,
    savepoint_of,
)
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, differences
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.state.savepoints.verification import digest_files


def verify(
    stream: Stream,
    id: Id,  # noqa: A002  the argument's name
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also count the rows again with Spark, or inspect a native one.")
    ] = False,
    folder: Folder = None,
    home: Home = None,
    master: Master = None,
) -> None:
    """Compute every checksum anew. If a file is missing or changed, a line says so and the exit code is 17."""
    where, manifest = _complete(stream, id, folder, home)
    with keep_from_removal(where, "savepoint verify"):
        _require_sound(where, manifest)
        typer.echo(f"{count_is(len(manifest.files), 'file')} unchanged: {contents_line(manifest)}")
        if deep and manifest.kind is SavepointKind.NATIVE:
            _inspect(where)
        elif deep:
            _recount(stream, where, manifest, master)


def diff(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    before: Id,
    now: Id,
    *,
    events: Annotated[bool, typer.Option("--events", help="Also compare the open events, with Spark.")] = False,
    folder: Folder = None,
    as_json: AsJson = False,
    home: Home = None,
    master: Master = None,
) -> None:
    """List the differences between two savepoints: the stream's position, its spec, its open events."""
    find = _require_canonical if events else _complete
    homes, manifests = zip(*(find(stream, each, folder, home) for each in (before, now)), strict=True)
    changes = differences(*manifests)
    counts: dict[str, int] = {}
    if events:
        from sessionizer.spark.state.contents_reader import compare_states  # noqa: PLC0415  fast --help
        from sessionizer.spark.state.savepoints.saved_state import saved_events  # noqa: PLC0415  fast --help

        with (
            working_spark("savepoint diff", stream, master, "starting Spark to compare the open events") as spark,
            keep_from_removal(homes[0], "savepoint diff"),
            keep_from_removal(homes[1], "savepoint diff"),
        ):
            sides = [saved_events(spark, *each) for each in zip(homes, manifests, strict=True)]
            found = compare_states(sides[0], sides[1], most=0)
        counts = {
            "in both": found.events_in_both,
            "only before": found.events_only_before,
            "only now": found.events_only_now,
        }
    if as_json:
        told = {"changes": [asdict(change) for change in changes], "events": counts or None}
        typer.echo(json.dumps(told, indent=1))
        return
    for change in changes:
        typer.echo(change_line(change))
    for name, count in counts.items():
        typer.echo(f"open events {name}: {count:,}")
    if not changes:
        typer.echo("the two savepoints are equal")


def export(
    stream: Stream,
    id: Id,  # noqa: A002  the argument's name
    *,
    to: Annotated[str, typer.Option(help="New folder or URI for the Delta table.")],
    folder: Folder = None,
    home: Home = None,
    master: Master = None,
) -> None:
    """Write the open sessions as a Delta table, each with the end that it would have if no more events came."""
    where, manifest = _require_canonical(stream, id, folder, home)
    target = folder_at(to, "--to")
    if data_exists(target):
        raise existing_result(uri_of(target))
    from sessionizer.spark.state.savepoints.saved_state import open_sessions  # noqa: PLC0415  fast --help

    with (
        working_spark("savepoint export", stream, master, "starting Spark") as spark,
        keep_from_removal(where, "savepoint export"),
    ):
        sessions = open_sessions(spark, where, manifest)
        sessions.write.format("delta").mode("errorifexists").save(uri_of(target))
        count = spark.read.format("delta").load(uri_of(target)).count()
    typer.echo(f"wrote {count_text(count, 'open session')}: {uri_of(target)}")


def prune(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    keep: Annotated[int, typer.Option(help="Number of the newest complete savepoints to keep.", min=1)] = 10,
    days: Annotated[float, typer.Option(help="Keep also those that are younger, in days.", min=0)] = 7.0,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only show the plan.")] = False,
    folder: Folder = None,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Delete savepoints that are old, or were never completed. The plan is shown first.

    One complete savepoint always stays, and so does each that a lineage started from or that is being read or made.
    """
    where, now = stream_home(home, stream), epoch_ms()
    found = {each.id: each for each in list_savepoints(savepoints_folder(where, folder), now)}
    verdicts = plan_removal(list(found.values()), where, Policy(keep, round(days * DAY)), now)
    if as_json:
        typer.echo(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    for verdict in () if as_json else verdicts:
        typer.echo(f"{'remove' if verdict.goes else 'keep':<7} {verdict.id}  {verdict.because}")
    going = [verdict.id for verdict in verdicts if verdict.goes]
    if not going:
        say("no savepoint to remove")
    if plan or not going:
        return
    if not yes:
        confirm(f"Run the plan ({len(going)} to remove)?")
    for stays in newest_that_stay(list(found.values()), verdicts):
        _require_sound(*stays, ", so nothing was removed, because this one would stay")
    for savepoint in going:
        needed = remove(found[savepoint].home, where)
        say(f"removed {savepoint}" if needed is None else f"kept {savepoint} after all: {needed}")


def _require_sound(where: SavepointHome, manifest: Manifest, so: str = "") -> None:
    wrong = digest_files(where).findings(manifest.files)
    for finding in wrong:
        typer.echo(str(finding))
    if wrong:
        raise UnusableSavepoint(where.id, f"{len(wrong)} of its files are not as they were written{so}")


def _require_canonical(
    stream: str, savepoint: str, folder: str | None, home: Path | None
) -> tuple[SavepointHome, Manifest]:
    where, manifest = _complete(stream, savepoint, folder, home)
    if manifest.kind is not SavepointKind.CANONICAL:
        raise UnusableSavepoint(savepoint, f"it is {manifest.kind}, and has no tables")
    return where, manifest


def _complete(stream: str, savepoint: str, folder: str | None, home: Path | None) -> tuple[SavepointHome, Manifest]:
    where = stream_home(home, stream)
    return complete_savepoint(savepoints_folder(where, folder), savepoint, epoch_ms())


def _inspect(where: SavepointHome) -> None:
    """Print the damage in the content of a native savepoint, which its checksums cannot show.

    The checkpoint may have been damaged when it was copied. Raises UnusableSavepoint if Spark cannot resume from it.
    """
    from sessionizer.inspection.inspect import inspect  # noqa: PLC0415  fast --help

    found = inspect(where.part(CHECKPOINT), deep=True)
    if found is None:
        raise UnusableSavepoint(where.id, "its checkpoint has no log of batches")
    for line in finding_lines(found.findings):
        typer.echo(line)
    if found.harmful:
        raise UnusableSavepoint(where.id, f"{count_is(found.harmful, 'file')} damaged, and were when it was made")
    typer.echo("its open sessions are not counted, because it is native: restore it, then run `sessionizer state show`")


def _recount(stream: str, where: SavepointHome, manifest: Manifest, master: str | None) -> None:
    from sessionizer.spark.state.savepoints.saved_state import recount  # noqa: PLC0415  fast --help

    with working_spark("savepoint verify", stream, master, "starting Spark to count the rows again") as spark:
        found = recount(spark, where, manifest)
    for part, (counts, due_ms) in found.items():
        if (counts, due_ms) != (manifest.counts, manifest.earliest_due_ms):
            raise UnusableSavepoint(where.id, f"its {part} hold {counts}, and its manifest says {manifest.counts}")
    typer.echo("the tables have the rows that the manifest counts")


savepoint = typer.Typer(no_args_is_help=True, help="Make, show, check and remove savepoints of the open state.")


@savepoint.command()
def create(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    id: Annotated[  # noqa: A002  the option's name
        str | None, typer.Option(help="Its id. Default: a new one. A complete savepoint is not made again.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="The batch. Default: the newest committed one.")] = None,
    stopping: Annotated[
        bool, typer.Option("--stop", help="Stop the stream first, so that it reads nothing after the savepoint.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the stop.", min=1)] = 60.0,
    native: Annotated[
        bool, typer.Option("--native", help="Copy the checkpoint's files: fast, for this line of Spark only.")
    ] = False,
    hurry: Annotated[
        bool, typer.Option("--hurry", help="Use the same priority as the stream, which slows it down.")
    ] = False,
    why: Annotated[str, typer.Option(help="The reason, which is kept.")] = "sessionizer savepoint create",
    folder: Folder = None,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Save the open events after a committed batch. Without --stop the stream is not touched, and may run on."""
    where = stream_home(home, stream, data)
    require_known_stream(where, streams)
    name = check_identifier("savepoint", id) if id else mint_id(epoch_ms())  # a failed try is repeated under it
    require_no_operation(where)
    if stopping:
        stop(stream, wait=wait, why=why, streams=streams, home=home)
    check = _check_of_stop(where) if stopping else lambda: None
    live = read_driver(where, epoch_ms()).state.is_live
    asked = SavepointRequest(savepoints_folder(where, folder), why, name, live=live)
    lineage = read_committed_batch(where, batch).lineage  # reports an error before Spark starts
    if live and not hurry:
        give_way()
    begun_at = epoch_ms()
    with RunReporter(lambda: command_run(where, "savepoint", name, begun_at, lineage), say):
        if native:
            made = make_native_savepoint(where, read_committed_batch(where, batch), asked, _print_step)
        else:
            made = _canonical(where, batch, asked, master, check)
        check()  # again: the stream must not have read more than was saved
    _show_made(made, asked, as_json=as_json)


def _show_made(made: Manifest, asked: SavepointRequest, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=1))
        return
    typer.echo(f"savepoint {made.id} of {made.stream} after batch {made.batch_id}: {contents_line(made)}")
    typer.echo(uri_of(asked.folder / made.id))


def _check_of_stop(where: StreamHome) -> Callable[[], None]:
    stopped_at = read_lease(where)

    def check() -> None:
        now = read_lease(where)
        if now is not None and now.token > (stopped_at.token if stopped_at else 0):
            raise StreamRunsAgain(where.name, now.uid or "of an unknown name")

    return check


def _canonical(
    where: StreamHome, batch: int | None, asked: SavepointRequest, master: str | None, check: Callable[[], None]
) -> Manifest:
    from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.savepoints.savepoint import make_savepoint  # noqa: PLC0415  fast --help

    with working_spark("savepoint", where.name, master, f"starting Spark for a savepoint of {where.name}") as spark:
        check()
        committed = read_committed_batch(where, batch)
        say(f"saving lineage {committed.lineage} after batch {committed.batch_id}")
        return retry_late_worker(lambda: make_savepoint(spark, where, committed, asked, _print_step), say)


def _print_step(step: str) -> None:
    say(f"done: {step}")


@savepoint.command("list")
def list_(stream: Stream, *, folder: Folder = None, as_json: AsJson = False, home: Home = None) -> None:
    """List the savepoints of the stream, the oldest first, also those that were not completed."""
    now = epoch_ms()
    found = list_savepoints(savepoints_folder(stream_home(home, stream), folder), now)
    if as_json:
        typer.echo(json.dumps([savepoint_json(each) for each in found], indent=1))
    elif not found:
        typer.echo(f"stream {stream} has no savepoints")
    else:
        typer.echo(savepoint_list(found, now))


@savepoint.command()
def show(stream: Stream, id: Id, *, folder: Folder = None, as_json: AsJson = False, home: Home = None) -> None:  # noqa: A002  the argument's name
    """Show the manifest of a savepoint, and the places of its tables."""
    now = epoch_ms()
    found = savepoint_of(savepoints_folder(stream_home(home, stream), folder), id, now)
    if as_json:
        typer.echo(json.dumps(savepoint_json(found), indent=1))
        return
    typer.echo(savepoint_line(found, now))
    for name, value in savepoint_facts(found):
        typer.echo(f"  {name:<12} {value}")


for command in (verify, diff, export, prune):
    savepoint.command()(command)
