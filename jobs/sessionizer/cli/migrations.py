"""``sessionizer migration``: the migrations of a stream's open events, drafted, listed and tried."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sessionizer.cli.places import Options, Stream, require_local, shares
from sessionizer.cli.terminal import say, working_spark
from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import epoch_ms, moment_text
from sessionizer.home.local_files import writing
from sessionizer.home.names import mint_id
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import require_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, read_applied
from sessionizer.migrations.declared import (
    compile_migrations,
    describe_migration,
    migration_digest,
    pending_migrations,
)
from sessionizer.migrations.draft import Preview, draft_migration
from sessionizer.state.proof.result import BATCHES, proof_page
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.rules import ALLOWED_ID, Migration, is_migration_id
from sessionizer.stream_spec.document.stream import StreamSpec

migration = typer.Typer(no_args_is_help=True, help="Draft, list and try migrations of open events.")


@migration.command()
@shares("streams", "home", "data")
def new(stream: Stream, name: Annotated[str, typer.Argument(help="Id of the migration.")], at: Options) -> None:
    """Print a draft, from the difference between the file and the spec that the stream runs by. Writes nothing."""
    if not is_migration_id(name):
        raise InvalidSpec("NAME", name, ALLOWED_ID)
    where, spec = at.home_of(stream), at.spec_of(stream)
    lineage = require_lineage(where)
    record, kept = SPEC_FILE.of(where, lineage).require(), TYPES_FILE.of(where, lineage).require()
    before = document_of(spec) if record is None else record.document
    typer.echo(draft_migration(name, before, document_of(spec), kept.payload if kept else {}), nl=False)


@migration.command("list")
@shares("as_json", "streams", "home", "data")
def list_(stream: Stream, at: Options) -> None:
    """List applied and pending migrations, in order."""
    where, spec = at.home_of(stream), at.spec_of(stream)
    applied = read_applied(where, require_lineage(where))
    declared = {each.id: describe_migration(each) for each in spec.migrations}
    states = [(each.id, each.digest, "applied", each.at) for each in applied]
    pending = pending_migrations(stream, spec.migrations, applied)
    states += [(each.id, migration_digest(each), "pending", 0) for each in pending]
    found: list[dict[str, Any]] = [
        {"id": name, "digest": digest, "state": state, "at": at, "does": declared.get(name, "")}
        for name, digest, state, at in states
    ]
    if at.as_json:
        typer.echo(json.dumps(found))
        return
    if not found:
        typer.echo(f"stream {stream} has no migrations")
    for each in found:
        since = f" {moment_text(each['at'])}" if each["at"] else ""
        typer.echo(f"{each['id']} ({each['digest']}): {each['state']}{since}")
        typer.echo(f"  {each['does'] or 'no longer in the spec'}")


@migration.command()
@shares("as_json", "streams", "home", "data", "master")
def check(
    stream: Stream,
    at: Options,
    *,
    deep: Annotated[bool, typer.Option("--deep", help="Also have Spark try the pending ones on open events.")] = False,
) -> None:
    """Check the list, with --deep what the pending migrations do to open events. Changes nothing."""
    where, spec = at.home_of(stream), at.spec_of(stream)
    lineage = require_lineage(where)
    pending = pending_migrations(stream, spec.migrations, read_applied(where, lineage))
    kept = TYPES_FILE.of(where, lineage).require()
    compile_migrations(where.name, pending, list(kept.payload) if kept is not None else [])
    if not deep or not pending:
        ids = [each.id for each in pending]
        told = json.dumps({"pending": ids}) if at.as_json else f"ok  {stream}: {', '.join(ids) or 'nothing'} pending"
        typer.echo(told)
        return
    preview = _preview(where, spec, pending, at.master)
    for line in [json.dumps(asdict(preview))] if at.as_json else preview.lines():
        typer.echo(line)


def _preview(where: StreamHome, spec: StreamSpec, pending: tuple[Migration, ...], master: str | None) -> Preview:
    from sessionizer.home.data_files import remove_tree  # noqa: PLC0415  fast --help
    from sessionizer.spark.state.lineages.migrated_events import MigratedEvents, preview_migrations  # noqa: PLC0415
    from sessionizer.state.lineages.committed_batch import read_committed_batch  # noqa: PLC0415

    folder = where.seeds / f"preview-{mint_id(epoch_ms())}"
    with working_spark("migration check", spec.name, master, "starting Spark to try the migrations") as spark:
        try:
            return preview_migrations(MigratedEvents(spark, where, read_committed_batch(where), pending, folder))
        finally:
            remove_tree(folder)


@shares("as_json", "streams", "home", "data", "master")
def prove(
    stream: Stream,
    at: Options,
    *,
    batches: Annotated[int, typer.Option(help="Number of recorded batches to replay.", min=1)] = BATCHES,
    first: Annotated[
        int | None, typer.Option("--from", help="The first batch to replay. Default: the newest batches.", min=1)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the result as one HTML page to this file.", callback=require_local)
    ] = None,
) -> None:
    """Replay recorded batches on a copy, by this release and the spec file, and compare with the tables.

    The stream is not touched and may run. Ends with 63 if a row differs that no change of the spec explains.
    """
    where, spec = at.home_of(stream), at.spec_of(stream)
    if report is not None:
        with writing(report.parent, "the report"):
            report.parent.mkdir(parents=True, exist_ok=True)
    from sessionizer.spark.proof.prove import ProofRequest, prove_and_keep  # noqa: PLC0415  fast --help

    with working_spark(
        "prove", stream, at.master, f"starting Spark to replay batches of {stream}", where.data
    ) as spark:
        kept = prove_and_keep(spark, where, spec, ProofRequest(batches, first), say)
    proof = kept.proof
    if report is not None:
        with writing(report, "the report"):
            report.write_text(proof_page(proof), encoding="utf-8")
        say(f"wrote {report}")
    say(f"added to {kept.table}")
    at.show(proof.to_json(), proof.lines())
    proof.require()
