"""The command: all workloads in turn, or a closer look at one contestant."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sessionizer_bench import erasures, live_savepoints, open_sessions, state_verbs, workloads
from sessionizer_bench import executors as executor_counts
from sessionizer_bench.contestants import flink
from sessionizer_bench.data.dataset import Dataset
from sessionizer_bench.measuring import event_log
from sessionizer_bench.measuring.latency import CONTESTANTS as LIVE_CONTESTANTS
from sessionizer_bench.measuring.latency import latency_once
from sessionizer_bench.measuring.live_batches import Taken
from sessionizer_bench.measuring.startup import start_once
from sessionizer_bench.places import DOCS, RUNS, SCRATCH
from sessionizer_bench.reporting import breakdown, results, tables
from sessionizer_bench.reporting.targets import STARTUP
from sessionizer_bench.tournament import Choices, Turn, play, prepared, turns

if TYPE_CHECKING:
    from sessionizer_bench.workloads import Workload

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)

Only = Annotated[
    list[str] | None, typer.Option(help="Only this workload (repeat for more); startup and latency are two.")
]
Contestants = Annotated[list[str] | None, typer.Option(help="Only this contestant (repeat for more).")]
Groups = Annotated[int, typer.Option(help="Key groups of our query.")]
EmitEvery = Annotated[int | None, typer.Option(help="Our emit_every, seconds of event time; else the workload's.")]
PeerSink = Annotated[str, typer.Option(help="How the peers write: native or foreach_batch.")]


@app.callback(invoke_without_command=True)
def race(  # noqa: PLR0913  one parameter per option
    context: typer.Context,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: only shows that it works.")] = False,
    repetitions: Annotated[int, typer.Option(help="Runs of each contestant on each workload.")] = 3,
    only: Only = None,
    contestant: Contestants = None,
    key_groups: Groups = 16,
    emit_every: EmitEvery = None,
    peer_sink: PeerSink = "native",
    into: Annotated[Path | None, typer.Option(help="Folder of the results; docs for a full run, else .bench.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep what the folder has of other workloads.")] = False,
) -> None:
    """Race the contestants. This runs if no command is given."""
    if context.invoked_subcommand is not None:
        return
    everything = workloads.quick() if quick else workloads.full()
    chosen = tuple(workload for workload in everything if not only or workload.name in only)
    choices = Choices(
        repetitions=1 if quick else repetitions,
        contestants=tuple(contestant or ()),
        key_groups=key_groups,
        emit_every_s=emit_every,
        peer_sink=peer_sink,
    )
    folder = into or (DOCS if not (quick or only or contestant) else SCRATCH / ("quick" if quick else "results"))
    taken = results.new_results({workload.name: workload.title for workload in everything}, quick=quick)
    if keep and not results.found_in(folder):
        raise typer.BadParameter(f"there are no results in {folder}", param_hint="--keep")
    if keep:
        again = {*(workload.name for workload in chosen), *(only or ())}
        taken = results.merge_results(results.load(folder), taken, again)
    _race(chosen, choices, taken, folder)
    if not only or STARTUP in only:
        _start(choices.repetitions, taken, folder)
    if not only or workloads.LATENCY in only:
        _live(choices, taken, folder, quick=quick)
    results.publish(taken, folder)
    if not quick:
        typer.echo(tables.promises(taken["runs"]))
    if not only:
        history()
    typer.echo(f"tables, plot and figures are in {folder}")


def _race(chosen: tuple[Workload, ...], choices: Choices, taken: dict[str, Any], folder: Path) -> None:
    planned = [*turns(chosen, choices)]
    if {workloads.FLINK, workloads.FLINK_COUNTS} & {turn.contestant for turn in planned}:
        flink.require_installed()  # not after half an hour
    for turn in planned:
        record = results.compact(play(turn, choices, typer.echo))
        taken["runs"].append(record)
        results.store(taken, folder)
        so_far = tables.summary(taken["runs"], turn.workload.name)
        typer.echo(f"{turn.workload.name} {turn.repetition + 1}/{choices.repetitions} {turn.contestant}: {so_far}")


def _start(repetitions: int, taken: dict[str, Any], folder: Path) -> None:
    dataset = Dataset("startup", batch_events=10_000, batches=3, traffic=workloads.BUSY)
    data = prepared(replace(workloads.LARGE, dataset=dataset, only_first=()), workloads.OURS, typer.echo)
    for repetition in range(repetitions):
        record = start_once(data, dataset.files_per_batch, repetition)
        taken["runs"].append(record)
        results.store(taken, folder)
        took, parts = record["start_to_first_batch_s"], record["parts_s"]
        typer.echo(f"startup {repetition + 1}/{repetitions}: {took} s, of which {parts}")


def _live(choices: Choices, taken: dict[str, Any], folder: Path, *, quick: bool) -> None:
    seconds: dict[str, Any] = {"live_s": 30, "warm_up_s": 5} if quick else {}
    for repetition in range(choices.repetitions):
        for name in LIVE_CONTESTANTS:
            if not choices.contestants or name in choices.contestants:
                record = results.compact(latency_once(name, repetition, **seconds))
                taken["runs"].append(record)
                results.store(taken, folder)
                shown = {
                    key: record[key] for key in ("latency_ms_median", "latency_ms_p95", "batch_ms_mean", "phases_ms")
                }
                typer.echo(f"latency {repetition + 1}/{choices.repetitions} {name}: {shown}")


@app.command()
def state(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A hundredth of the size: only shows that it works.")] = False,
    repetitions: Annotated[int, typer.Option(help="Turns that count; one more warms the JVM.")] = 3,
    only_upgrades: Annotated[bool, typer.Option("--only-upgrades", help="Not the commands that have peers.")] = False,
) -> None:
    """Time the commands on a stream's state, over a million open sessions, beside their peers."""
    dataset = state_verbs.quick() if quick else state_verbs.MILLION
    record = state_verbs.measured(dataset, 1 if quick else repetitions, typer.echo, only_upgrades=only_upgrades)
    results_file = SCRATCH / f"{dataset.name}.json"
    results_file.write_text(json.dumps(record, indent=1))
    typer.echo("\n".join([*state_verbs.lines(record), f"figures are in {results_file}"]))


@app.command()
def erase(
    *, quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: only shows that it works.")] = False
) -> None:
    """Time an erasure of 10,000 people, beside Delta's own DELETE and VACUUM of the same keys."""
    record = erasures.measured(erasures.QUICK if quick else erasures.FULL, typer.echo)
    results_file = SCRATCH / f"erase{'-quick' if quick else ''}.json"
    results_file.write_text(json.dumps(record, indent=1))
    typer.echo("\n".join([*erasures.lines(record), f"figures are in {results_file}"]))


@app.command("open-sessions")
def open_sessions_cost(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A hundredth of the size: only shows that it works.")] = False,
    repetitions: Annotated[int, typer.Option(help="Turns.")] = 3,
) -> None:
    """Time a driver over a million open sessions, with and without the table of open sessions."""
    dataset = open_sessions.quick() if quick else open_sessions.DATASET
    found = open_sessions.measured(dataset, 1 if quick else repetitions, typer.echo)
    (SCRATCH / f"{dataset.name}-open-sessions.json").write_text(json.dumps(found, indent=1))
    typer.echo("\n".join(open_sessions.lines(found)))


@app.command()
def live(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A hundredth of the size: only shows that it works.")] = False,
    way: Annotated[list[str] | None, typer.Option(help="A way to make a savepoint (repeat for more).")] = None,
    trigger: Annotated[float, typer.Option(help="Seconds from batch to batch.")] = live_savepoints.TRIGGER_S,
    rounds: Annotated[int, typer.Option(help="Savepoints of each way.")] = 2,
    keep: Annotated[bool, typer.Option("--keep", help="Add to the batches that were measured before.")] = False,
) -> None:
    """Time a live stream's batches while savepoints are made of it, and without savepoints."""
    ways = tuple(way or (live_savepoints.AS_IT_IS,))
    full = replace(live_savepoints.Turns(), trigger_s=trigger, rounds=rounds)
    turns = replace(live_savepoints.quick() if quick else full, ways=ways)
    taken = live_savepoints.measured(turns, typer.echo)
    results_file = SCRATCH / f"{turns.dataset.name}.json"
    if keep and results_file.exists():
        taken = Taken.from_json(json.loads(results_file.read_text())).and_those_of(taken)
    results_file.write_text(json.dumps({**asdict(taken), "summary": taken.summary()}, indent=1))
    typer.echo("\n".join([*live_savepoints.lines(taken.summary()), f"figures are in {results_file}"]))


@app.command()
def live_upgrade(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A hundredth of the size: only shows that it works.")] = False,
    rounds: Annotated[int, typer.Option(help="Upgrades of each way.")] = 1,
) -> None:
    """Time for how long an upgrade with a migration stops a live stream, with ``--replay`` and without it."""
    turns = live_savepoints.quick() if quick else live_savepoints.Turns()
    for _ in range(rounds):
        for replay in (True, False):
            typer.echo(json.dumps(live_savepoints.upgraded(turns, typer.echo, replay=replay)))


@app.command()
def seeds(
    *, quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: only shows that it works.")] = False
) -> None:
    """Time each way to begin with a history, over the same events."""
    from sessionizer_bench import seed_ways  # needs the servers of the tests

    dataset = seed_ways.quick() if quick else seed_ways.EVENTS
    found = seed_ways.measured(dataset, typer.echo)
    (SCRATCH / f"{dataset.name}.json").write_text(json.dumps(found, indent=1))
    typer.echo("\n".join(seed_ways.lines(found)))


@app.command()
def proofs(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: only shows that it works.")] = False,
    repetitions: Annotated[int, typer.Option(help="Turns that count; one more warms the JVM.")] = 2,
) -> None:
    """Time a proof of a stream's batches, beside the stream that reads them itself."""
    from sessionizer_bench import proofs as proved  # needs the helpers of the tests

    datasets = proved.quick() if quick else proved.DATASETS_PROVED
    found = proved.measured(datasets, 1 if quick else repetitions, typer.echo)
    (SCRATCH / "proofs.json").write_text(json.dumps(found, indent=1))
    typer.echo("\n".join(proved.lines(found)))


@app.command()
def page(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Five streams: only shows that it works.")] = False,
    repetitions: Annotated[int, typer.Option(help="Requests of each that count; one more warms the server.")] = 10,
) -> None:
    """Time the Streams page beside Airflow's own list of DAGs, in one Airflow with 50 streams."""
    from sessionizer_bench import streams_page  # needs the helpers of the tests

    found = streams_page.measure(5 if quick else streams_page.STREAMS, 2 if quick else repetitions, typer.echo)
    (SCRATCH / "page.json").write_text(json.dumps(asdict(found), indent=1))
    typer.echo("\n".join(streams_page.lines(found)))


@app.command()
def history() -> None:
    """Time what the history of a stream costs its driver, and count the bytes of a week."""
    from sessionizer_bench import stream_history  # needs the helpers of the tests

    found = stream_history.measure()
    SCRATCH.mkdir(exist_ok=True)
    (SCRATCH / "history.json").write_text(json.dumps(asdict(found), indent=1))
    typer.echo("\n".join(stream_history.lines(found)))


@app.command()
def soak(  # noqa: PLR0913  one parameter per option
    *,
    hours: Annotated[float, typer.Option(help="Length of the soak.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the feed and the faults.")] = 7,
    rate: Annotated[float, typer.Option(help="Events a second.")] = 100.0,
    folder: Annotated[Path, typer.Option(help="Folder of the stream, its logs and the result.")] = RUNS / "soak",
    disk_mb: Annotated[int, typer.Option(help="Size of a disk for the home, which fills at times. Takes root.")] = 0,
    clock: Annotated[bool, typer.Option("--clock", help="A clock that steps at times. Takes a C compiler.")] = False,
    kafka: Annotated[bool, typer.Option("--kafka", help="Feed by a broker, which is killed at times.")] = False,
    airflow: Annotated[bool, typer.Option("--airflow", help="An Airflow, which is killed at times, keeps it.")] = False,
) -> None:
    """Run a stream for hours with a fault every minute, and compare its tables with the definition at the end."""
    from sessionizer_bench import soaked_run as soaked  # needs the helpers of the tests

    found = soaked.measure(
        hours, seed, rate, folder.absolute(), typer.echo, airflow=airflow, disk_mb=disk_mb, clock=clock, kafka=kafka
    )
    results_file = folder / "soak.json"
    soaked.store(found, results_file)
    typer.echo("\n".join([*soaked.lines(found), f"figures are in {results_file}"]))
    if not soaked.is_exact(found):
        raise typer.Exit(1)


@app.command()
def executors(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: only shows that it works.")] = False,
    count: Annotated[list[int] | None, typer.Option(help="So many executors (repeat for more); 1, 2 and 4.")] = None,
    key_groups: Groups = 16,
    partitions: Annotated[int, typer.Option(help="Partitions of the state.")] = 16,
) -> None:
    """Measure each executor's share of the same work, on one, two and four executors of one core."""
    made = []
    results_file = SCRATCH / f"{'quick-' if quick else ''}{executor_counts.NAME}.json"
    for number in count or executor_counts.COUNTS:
        division = executor_counts.Division(number, key_groups, partitions)
        made.append(executor_counts.measured(division, quick=quick, say=typer.echo))
        results_file.write_text(json.dumps(made, indent=1))
        typer.echo("\n".join(executor_counts.lines(made[-1])))
    typer.echo(f"figures are in {results_file}")


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="Folder of a results file.")] = DOCS) -> None:
    """Make the tables and the plot anew from the results file."""
    results.publish(results.load(folder), folder)


@app.command()
def profile(  # noqa: PLR0913  one parameter per option
    contestant: Annotated[str, typer.Argument(help="Whom to look at.")] = workloads.OURS,
    *,
    workload: Annotated[str, typer.Option(help="Which workload; latency is one.")] = workloads.LARGE.name,
    batches: Annotated[int, typer.Option(help="How many of its measured batches.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes.")] = False,
    key_groups: Groups = 16,
    emit_every: EmitEvery = None,
    peer_sink: PeerSink = "native",
) -> None:
    """Run one contestant once and show where the time of its batches goes."""
    log = RUNS / "event-log"
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir(parents=True)
    settings = event_log.settings(log)
    if workload == workloads.LATENCY:
        record = latency_once(contestant, 0, settings=settings)
    else:
        known = {found.name: found for found in (workloads.quick() if quick else workloads.full())}
        limited = replace(known[workload], only_first=((contestant, batches),))
        choices = Choices(key_groups=key_groups, emit_every_s=emit_every, peer_sink=peer_sink, settings=settings)
        record = play(Turn(limited, contestant, 0), choices, typer.echo)
    stages, last = event_log.stages_in(log), breakdown.last_batch(record)
    parts = [breakdown.format_batches(record), f"Batch {last}:", breakdown.timeline(record, stages, last)]
    typer.echo("\n\n".join([*parts, breakdown.metrics(stages, last)]))
