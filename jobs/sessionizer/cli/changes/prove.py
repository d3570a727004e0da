"""``sessionizer prove``: replay recorded batches by this release and the spec, and compare with the tables."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams, spark_master, stream_home, stream_spec
from sessionizer.cli.terminal import say, start_spark, translate_failures
from sessionizer.home.local_files import unwritable
from sessionizer.home.roots import is_local
from sessionizer.state.proof.batches import BATCHES
from sessionizer.state.proof.page import proof_page

if TYPE_CHECKING:
    from sessionizer.state.proof.result import Proof


def prove(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    batches: Annotated[int, typer.Option(help="Number of recorded batches to replay.", min=1)] = BATCHES,
    first: Annotated[
        int | None, typer.Option("--from", help="The first batch to replay. Default: the newest batches.", min=1)
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the result as one HTML page to this file.")] = None,
    as_json: AsJson = False,
    streams: Streams = None,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Replay recorded batches on a copy, by this release and the spec file, and compare with the tables.

    The stream is not touched and may run. Ends with 63 if a row differs that no change of the spec explains.
    """
    where, spec = stream_home(home, stream, data), stream_spec(streams, stream)
    if report is not None:
        _make_folder(report)
    from sessionizer.spark.proof.prove import ProofRequest, prove_and_keep  # noqa: PLC0415  fast --help

    say(f"starting Spark to replay batches of {stream}")
    spark = start_spark(f"sessionizer prove {stream}", spark_master(master), local_data=is_local(where.data))
    with translate_failures(stream):
        kept = prove_and_keep(spark, where, spec, ProofRequest(batches, first), say)
    spark.stop()
    proof = kept.proof
    if report is not None:
        _write_page(report, proof)
        say(f"wrote {report}")
    say(f"added to {kept.table}")
    typer.echo(json.dumps(proof.to_json(), indent=1) if as_json else "\n".join(proof.lines()))
    proof.require()


def _make_folder(file: Path) -> None:
    """Make the folder of the report before the work begins. Raises UnwritablePath, DiskFull."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(file.parent, "the report", error) from error


def _write_page(file: Path, proof: Proof) -> None:
    try:
        file.write_text(proof_page(proof), encoding="utf-8")
    except OSError as error:
        raise unwritable(file, "the report", error) from error
