"""``sessionizer savepoint``: the open events of a stream, kept as tables. Made, listed, compared, checked, removed."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final, TypeAlias

import typer

from sessionizer.cli.inspect.words import finding_lines
from sessionizer.cli.places import Options, Stream, existing_result, savepoints_folder, shares
from sessionizer.cli.run import stop
from sessionizer.cli.terminal import confirm, say, working_spark
from sessionizer.control.lease import read_lease
from sessionizer.control.openlineage.reporter import RunReporter, command_run
from sessionizer.control.records.operation_record import require_no_operation
from sessionizer.control.status.driver_status import read_driver
from sessionizer.counts import count_is, count_text, state_text
from sessionizer.errors import StreamRunsAgain, UnusableSavepoint
from sessionizer.home.clock import DAY, describe_duration, epoch_ms, moment_text
from sessionizer.home.data_files import data_exists
from sessionizer.home.names import check_identifier, mint_id
from sessionizer.home.roots import root_at, uri_of
from sessionizer.home.stream_home import CHECKPOINT, SavepointHome, StreamHome
from sessionizer.launch.scratch import give_way
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import (
    Policy,
    Savepoint,
    complete_savepoint,
    keep_from_removal,
    list_condemned,
    list_savepoints,
    newest_that_stay,
    plan_removal,
    remove,
    savepoint_of,
)
from sessionizer.state.savepoints.manifest import Manifest, SavepointKind, differences
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.state.savepoints.verification import digest_files
from sessionizer.stream_spec.decisions import Change

Id: TypeAlias = Annotated[str, typer.Argument(metavar="SAVEPOINT", help="Id of the savepoint.")]
_MOMENTS: Final = ("batch_at", "watermark_ms", "earliest_due_ms")
_OF_CANONICAL: Final = "counts."
"""Fields that a native savepoint does not have, because nothing reads its state when it is made."""


def contents_line(manifest: Manifest) -> str:
    """Describe the contents of a savepoint in one line."""
    size, counts = f"{manifest.bytes / 1_000_000:,.1f} MB", manifest.counts
    if counts is None:
        return f"{manifest.kind}, {count_text(len(manifest.files), 'file')}, {size}"
    return f"{state_text(counts.events, counts.keys, counts.sessions)}, {size}"


def _savepoint_line(found: Savepoint, now: int, *, names_lineage: bool = False) -> str:
    age = "" if found.at is None else f"  {describe_duration(now - found.at)} ago"
    if found.manifest is None:
        return f"{found.id}  {found.state}{age}{f'  ({found.wrong})' if found.wrong else ''}"
    of = f" of {found.manifest.lineage}" if names_lineage else ""
    return f"{found.id}  {found.state}{age}  batch {found.manifest.batch_id}{of}  {contents_line(found.manifest)}"


def _facts(found: Savepoint) -> Iterator[tuple[str, str]]:
    """Yield all facts about a savepoint, with a name for each."""
    yield "directory", uri_of(found.home.root)
    if (made := found.manifest) is not None:
        versions = ", ".join(f"{name} {version}" for name, version in made.fingerprint.versions.items())
        position = "nothing read yet" if made.position.offset is None else json.dumps(made.position.offset)
        yield "kind", f"{made.kind}, revision {made.revision}"
        yield "lineage", f"{made.lineage}, batch {made.batch_id} of {moment_text(made.batch_at)}"
        yield "source", f"{made.position.format} at {position}"
        yield "watermark", moment_text(made.watermark_ms) if made.watermark_ms else "none"
        if made.counts is None:
            yield "key groups", f"{made.key_groups}"
        else:
            yield "first end", "never" if made.earliest_due_ms is None else moment_text(made.earliest_due_ms)
            yield "key groups", f"{made.counts.groups} of {made.key_groups} hold events"
            yield "timeouts", f"another one for {count_text(made.counts.timeouts, 'client')}"
        yield from ((sink.name, f"version {sink.version} of {sink.location}") for sink in made.sinks)
        yield "made", f"{moment_text(made.made_at)}{', while the stream ran' if made.live else ''}; {versions}"
    yield "why", found.begun.why if found.begun else "no reason given"


def _value_text(field: str, value: Any) -> str:  # noqa: ANN401 - JSON
    if value is None:
        return "not in this kind" if field.startswith(_OF_CANONICAL) else "none"
    return moment_text(value) if field in _MOMENTS else repr(value)


def _savepoint_json(found: Savepoint) -> dict[str, Any]:
    return {
        "id": found.id,
        "state": str(found.state),
        "location": uri_of(found.home.root),
        "wrong": found.wrong,
        "begun": asdict(found.begun) if found.begun else None,
        "manifest": found.manifest.to_json() if found.manifest else None,
    }


savepoint = typer.Typer(no_args_is_help=True, help="Make, show, check and remove savepoints of the open state.")


@savepoint.command()
@shares("folder", "as_json", "streams", "home", "data", "master")
def create(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    at: Options,
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
) -> None:
    """Save the open events after a committed batch. Without --stop the stream is not touched, and may run on."""
    where = at.known_home_of(stream)
    name = check_identifier("savepoint", id) if id else mint_id(epoch_ms())  # a failed try is repeated under it
    require_no_operation(where)
    if stopping:
        stop(stream=stream, wait=wait, why=why, streams=at.streams, home=at.home)
    check = _check_of_stop(where) if stopping else lambda: None
    live = read_driver(where, epoch_ms()).state.is_live
    asked = SavepointRequest(savepoints_folder(where, at.folder), why, name, live=live)
    lineage = read_committed_batch(where, batch).lineage  # reports an error before Spark starts
    if live and not hurry:
        give_way()
    begun_at = epoch_ms()
    with RunReporter(lambda: command_run(where, "savepoint", name, begun_at, lineage), say):
        if native:
            made = make_native_savepoint(where, read_committed_batch(where, batch), asked, _print_step)
        else:
            made = _make_canonical(where, batch, asked, at.master, check)
        check()  # again: the stream must not have read more than was saved
    if made.made_at < begun_at:
        say(f"note: savepoint {made.id} was complete before, since {moment_text(made.made_at)}. Nothing was written")
    made_line = f"savepoint {made.id} of {made.stream} after batch {made.batch_id}: {contents_line(made)}"
    at.show(made.to_json(), [made_line, uri_of(asked.folder / made.id)])


def _check_of_stop(where: StreamHome) -> Callable[[], None]:
    stopped_at = read_lease(where)

    def check() -> None:
        now = read_lease(where)
        if now is not None and now.token > (stopped_at.token if stopped_at else 0):
            raise StreamRunsAgain(where.name, now.uid or "of an unknown name")

    return check


def _make_canonical(
    where: StreamHome, batch: int | None, asked: SavepointRequest, master: str | None, check: Callable[[], None]
) -> Manifest:
    from sessionizer.spark.failures.query_failure import retry_late_worker  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.savepoints.saved_state import make_savepoint  # noqa: PLC0415  fast --help

    with working_spark("savepoint", where.name, master, f"starting Spark for a savepoint of {where.name}") as spark:
        check()
        committed = read_committed_batch(where, batch)
        say(f"saving lineage {committed.lineage} after batch {committed.batch_id}")
        return retry_late_worker(lambda: make_savepoint(spark, where, committed, asked, _print_step), say)


def _print_step(step: str) -> None:
    say(f"done: {step}")


@savepoint.command("list")
@shares("folder", "as_json", "home")
def list_(stream: Stream, at: Options) -> None:
    """List the savepoints of the stream, the oldest first, also those that were not completed."""
    now = epoch_ms()
    found = list_savepoints(savepoints_folder(at.home_of(stream), at.folder), now)
    # each lineage counts from batch 0
    has_several = len({each.manifest.lineage for each in found if each.manifest is not None}) > 1
    lines = [_savepoint_line(each, now, names_lineage=has_several) for each in found]
    at.show([_savepoint_json(each) for each in found], lines or [f"stream {stream} has no savepoints"])


@savepoint.command()
@shares("folder", "as_json", "home")
def show(stream: Stream, id: Id, at: Options) -> None:  # noqa: A002  the argument's name
    """Show the manifest of a savepoint, and the places of its tables."""
    now = epoch_ms()
    found = savepoint_of(savepoints_folder(at.home_of(stream), at.folder), id, now)
    facts = (f"  {name:<12} {value}" for name, value in _facts(found))
    at.show(_savepoint_json(found), [_savepoint_line(found, now), *facts])


@savepoint.command()
@shares("folder", "home", "master")
def verify(
    stream: Stream,
    id: Id,  # noqa: A002  the argument's name
    at: Options,
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also count the rows again with Spark, or inspect a native one.")
    ] = False,
) -> None:
    """Compute every checksum anew. If a file is missing or changed, a line says so and the exit code is 17."""
    where, manifest = _complete(stream, id, at)
    with keep_from_removal(where, "savepoint verify"):
        _require_sound(where, manifest)
        typer.echo(f"{count_is(len(manifest.files), 'file')} unchanged: {contents_line(manifest)}")
        if deep and manifest.kind is SavepointKind.NATIVE:
            _inspect(where)
        elif deep:
            _recount(stream, where, manifest, at.master)


@savepoint.command()
@shares("folder", "as_json", "home", "master")
def diff(
    stream: Stream,
    before: Id,
    now: Id,
    at: Options,
    *,
    events: Annotated[bool, typer.Option("--events", help="Also compare the open events, with Spark.")] = False,
) -> None:
    """List the differences between two savepoints: the stream's position, its spec, its open events."""
    find = _require_canonical if events else _complete
    sides = [find(stream, each, at) for each in (before, now)]
    changes = differences(sides[0][1], sides[1][1])
    counts = _compare_events(stream, sides, at.master) if events else {}
    lines = [*map(_change_line, changes), *(f"open events {name}: {count:,}" for name, count in counts.items())]
    told = {"changes": [asdict(change) for change in changes], "events": counts or None}
    at.show(told, lines if changes else [*lines, "the two savepoints are equal"])


def _change_line(change: Change) -> str:
    before, now = (_value_text(change.field, each) for each in (change.before, change.now))
    return f"{change.field}: {before} → {now}"


def _compare_events(stream: str, sides: Sequence[tuple[SavepointHome, Manifest]], master: str | None) -> dict[str, int]:
    from sessionizer.spark.state.contents_reader import compare_states  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.savepoints.saved_state import saved_events  # noqa: PLC0415  fast --help

    with (
        working_spark("savepoint diff", stream, master, "starting Spark to compare the open events") as spark,
        keep_from_removal(sides[0][0], "savepoint diff"),
        keep_from_removal(sides[1][0], "savepoint diff"),
    ):
        found = compare_states(saved_events(spark, *sides[0]), saved_events(spark, *sides[1]), most=0)
    figures = (found.events_in_both, found.events_only_before, found.events_only_now)
    return dict(zip(("in both", "only before", "only now"), figures, strict=True))


@savepoint.command()
@shares("folder", "home", "master")
def export(
    stream: Stream,
    id: Id,  # noqa: A002  the argument's name
    at: Options,
    *,
    to: Annotated[str, typer.Option(help="New folder or URI for the Delta table.")],
) -> None:
    """Write the open sessions as a Delta table, each with the end that it would have if no more events came."""
    where, manifest = _require_canonical(stream, id, at)
    target = root_at(to, "--to")
    if data_exists(target):
        raise existing_result(uri_of(target))
    from sessionizer.spark.state.savepoints.saved_state import open_sessions  # noqa: PLC0415  fast --help

    with (
        working_spark("savepoint export", stream, at.master, "starting Spark") as spark,
        keep_from_removal(where, "savepoint export"),
    ):
        sessions = open_sessions(spark, where, manifest)
        sessions.write.format("delta").mode("errorifexists").save(uri_of(target))
        count = spark.read.format("delta").load(uri_of(target)).count()
    typer.echo(f"wrote {count_text(count, 'open session')}: {uri_of(target)}")


@savepoint.command()
@shares("folder", "as_json", "home")
def prune(
    stream: Stream,
    at: Options,
    *,
    keep: Annotated[int, typer.Option(help="Number of the newest complete savepoints to keep.", min=1)] = 10,
    days: Annotated[float, typer.Option(help="Keep also those that are younger, in days.", min=0, max=36_525)] = 7.0,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Only show the plan.")] = False,
) -> None:
    """Delete savepoints that are old, or were never completed. The plan is shown first.

    One complete savepoint always stays, and so does each that a lineage started from or that is being read or made.
    """
    where, now = at.home_of(stream), epoch_ms()
    found = list_savepoints(savepoints_folder(where, at.folder), now)
    verdicts = plan_removal(found, where, Policy(keep, round(days * DAY)), now)
    lines = (f"{'remove' if verdict.goes else 'keep':<7} {verdict.id}  {verdict.because}" for verdict in verdicts)
    at.show([asdict(verdict) for verdict in verdicts], lines)
    going = [savepoint for savepoint, _ in list_condemned(found, verdicts)]
    if not going:
        say("no savepoint to remove")
    if plan or not going:
        return
    if not yes:
        confirm(f"Run the plan ({len(going)} to remove)?")
    for stays in newest_that_stay(found, verdicts):
        _require_sound(*stays, ", so nothing was removed, because this one would stay")
    for savepoint in going:
        needed = remove(savepoint.home, where)
        say(f"removed {savepoint.id}" if needed is None else f"kept {savepoint.id} after all: {needed}")


def _require_sound(where: SavepointHome, manifest: Manifest, so: str = "") -> None:
    wrong = digest_files(where).findings(manifest.files)
    for finding in wrong:
        typer.echo(str(finding))
    if wrong:
        raise UnusableSavepoint(where.id, f"{len(wrong)} of its files are not as they were written{so}")


def _require_canonical(stream: str, savepoint: str, at: Options) -> tuple[SavepointHome, Manifest]:
    where, manifest = _complete(stream, savepoint, at)
    if manifest.kind is not SavepointKind.CANONICAL:
        raise UnusableSavepoint(savepoint, f"it is {manifest.kind}, and has no tables")
    return where, manifest


def _complete(stream: str, savepoint: str, at: Options) -> tuple[SavepointHome, Manifest]:
    return complete_savepoint(savepoints_folder(at.home_of(stream), at.folder), savepoint, epoch_ms())


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
