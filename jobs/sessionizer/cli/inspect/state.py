"""``sessionizer state``: the open events of a stream after a batch that it still keeps."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from sessionizer.cli.inspect.batch_state import BatchState, compare
from sessionizer.cli.inspect.timeline import timeline
from sessionizer.cli.inspect.words import where_json
from sessionizer.cli.places import AsJson, Data, Home, Master, Stream, require_known_stream, spark_master, stream_home
from sessionizer.cli.terminal import say, start_spark, translate_failures
from sessionizer.errors import InvalidSpec
from sessionizer.home.roots import is_local
from sessionizer.state.lineages.committed_batch import find_retained_batch

state = typer.Typer(no_args_is_help=True, help="Look at the open sessions of a stream. Nothing is changed.")

Batch = Annotated[int | None, typer.Option(help="A kept batch. Default: the newest committed one.")]


@state.command()
def show(  # noqa: PLR0913  one parameter per option
    stream: Stream,
    *,
    key: Annotated[str | None, typer.Option(help="Only the open sessions of this key, event by event.")] = None,
    group: Annotated[int | None, typer.Option(help="Only this key group, with its heaviest keys.", min=0)] = None,
    batch: Batch = None,
    heaviest: Annotated[int, typer.Option(help="Number of the heaviest groups and keys.", min=1)] = 10,
    as_json: AsJson = False,
    home: Home = None,
    data: Data = None,
    master: Master = None,
) -> None:
    """Show the open events after a batch: in all, of one key group, or of one key. The stream may run on."""
    if key is not None and group is not None:
        raise InvalidSpec("--group", group, "Omit it, because --key names the group already")
    where = stream_home(home, stream, data)
    require_known_stream(where)
    find_retained_batch(where, batch)  # reports an error before Spark starts
    say(f"starting Spark to look into {stream}")
    spark = start_spark(f"sessionizer state {stream}", spark_master(master), local_data=is_local(where.data))
    started = time.monotonic()
    with translate_failures(stream):
        kept = BatchState.of(spark, find_retained_batch(where, batch))
        if key is not None:
            shown, lines = kept.key(key)
        else:
            shown, lines = kept.groups(group, heaviest)
        kept.found.require_unchanged()
    say(f"read in {time.monotonic() - started:.1f} s")
    typer.echo(json.dumps({**where_json(kept.found), **shown}, indent=1) if as_json else "\n".join(lines))
    spark.stop()


for command in (compare, timeline):
    state.command()(command)
