"""``sessionizer prove``: replay recorded batches by this release and the spec, and compare with the tables."""

from __future__ import annotations

import json
from pathlib import Path  # noqa: TC003  typer reads the annotations at run time
from typing import TYPE_CHECKING, Annotated

import typer

from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, Streams, spark_master, stream_home, stream_spec
from sessionizer.cli.terminal import named_failures, say, started_spark
from sessionizer.errors import ReplayDiffers
from sessionizer.home.data_root import is_local
from sessionizer.home.disk.room import unwritable
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
    from sessionizer.spark.proof.proof_table import add_to_proof_table  # noqa: PLC0415
    from sessionizer.spark.proof.prove import ProofRequest  # noqa: PLC0415  fast --help
    from sessionizer.spark.proof.prove import prove as prove_stream  # noqa: PLC0415

    say(f"starting Spark to replay batches of {stream}")
    spark = started_spark(f"sessionizer prove {stream}", spark_master(master), local_data=is_local(where.data))
    with named_failures(stream):
        proof = prove_stream(spark, where, spec, ProofRequest(batches, first), say)
        table = add_to_proof_table(spark, where, proof)
    spark.stop()
    if report is not None:
        _write_page(report, proof)
        say(f"wrote {report}")
    say(f"added to {table}")
    typer.echo(json.dumps(proof.to_json(), indent=1) if as_json else "\n".join(proof.lines()))
    if not proof.holds:
        raise ReplayDiffers(stream, proof.failure)


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
