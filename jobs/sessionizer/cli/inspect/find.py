"""``sessionizer find``: the sessions of a key, or the place where an event went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from sessionizer.cli.inspect.batch_state import BatchState, key_in_files
from sessionizer.cli.inspect.words import moment, one_line, printable, session_lines, where_json
from sessionizer.cli.places import Options, Stream, shares
from sessionizer.cli.terminal import working_spark
from sessionizer.counts import count_text
from sessionizer.deployment.running_spec import spec_in_force
from sessionizer.errors import InvalidSpec
from sessionizer.fleet.lookup.find import ask_driver, find_event, find_key
from sessionizer.home.json_record import JsonObject
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.lineages.committed_batch import find_retained_batch

WITHIN_S: Final = 30.0
"""Seconds for which the command waits for a driver, and after which it opens no further file of a table."""
_ROWS: Final = ("closed", "sessions", "quarantine", "late")


@shares("as_json", "streams", "home", "data", "master")
def find(
    stream: Stream,
    at: Options,
    *,
    key: Annotated[str | None, typer.Option(help="The open session of this key, and its last closed ones.")] = None,
    event: Annotated[str | None, typer.Option(help="The place where the event with this id went.")] = None,
    with_open: Annotated[
        bool,
        typer.Option(
            "--open", help="Look into the open sessions, if no driver answers: for an event with Spark, half a minute."
        ),
    ] = False,
) -> None:
    """Find the sessions of a key, or where an event went: a session, quarantine with its reason, or late events."""
    if key is None and event is None:
        raise InvalidSpec("--key", None, "Give --key or --event")
    if key is not None and event is not None:
        raise InvalidSpec("--event", event, "Omit it, because --key is given")
    spec, where = at.spec_of(stream), at.home_of(stream)
    locations = where.table_locations(spec_in_force(where, spec).sink.path)
    if key is not None:
        asked, lines = _ask(where, key, at.master, with_spark=with_open)
        found = find_key(stream, key, locations, asked, within_s=WITHIN_S)
    else:
        found, lines = find_event(stream, event or "", locations, within_s=WITHIN_S), []
        if with_open:
            found["open"], lines = _look(where, lambda kept: kept.event(event or ""), at.master)
            lines = lines or ["it is in no open session"]
    rows = (row for name in _ROWS for row in found.get(name, ()))
    at.show(found, map(printable, [found["says"], *map(_line, rows), *lines]))


def _ask(where: StreamHome, key: str, master: str | None, *, with_spark: bool) -> tuple[JsonObject | None, list[str]]:
    """Return the open sessions of the key, and lines about them: by the live driver, else by files or Spark."""
    asked = ask_driver(where, key, WITHIN_S)
    if asked is None and with_spark:
        found = find_retained_batch(where)
        if (read := key_in_files(found, key)) is not None:
            return {**where_json(found), **read[0], "error": None}, read[1]
        (shown,), lines = _look(where, lambda _: [key], master)
        return {**shown, "error": None}, lines
    sessions = asked["sessions"] if asked else ()
    return asked, [line for session in sessions for line in session_lines(session)]


def _look(
    where: StreamHome, keys: Callable[[BatchState], list[str]], master: str | None
) -> tuple[list[JsonObject], list[str]]:
    find_retained_batch(where)  # reports an error before Spark starts
    with working_spark("find", where.name, master, f"starting Spark to look into {where.name}", where.data) as spark:
        kept = BatchState.of(spark, find_retained_batch(where))
        looks = [kept.key(key) for key in keys(kept)]
        kept.found.require_unchanged()
    shown = [{**where_json(kept.found), **each} for each, _ in looks]
    return shown, [line for _, lines in looks for line in lines]


def _line(row: JsonObject) -> str:
    batch = f"batch {row['batch_id']} of {row['lineage']}"
    if "session_id" in row:
        what = f"session {row['session_id']} of {row['key']}: {count_text(row['event_count'], 'event')}"
        return f"{what}, {moment(row['started_at'])} to {moment(row['ended_at'])}, {row['close_reason']}, {batch}"
    if "reason" in row:
        position = row["source_position"] or "an unknown position"
        return f"refused: {row['reason']}, {position}, {batch}: {one_line(row['raw'] or '')}"
    return f"late: {row['event_id']} of {row['key']} at {moment(row['event_time'])}, {batch}"
