"""``sessionizer init``: a spec file guessed from a sample, and what the first rows of a source become."""

from __future__ import annotations

import bz2
import gzip
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import typer

from sessionizer.cli.inspect.words import table_text
from sessionizer.cli.places import Options, require_local, shares
from sessionizer.cli.terminal import say, working_spark
from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec, SessionizerError, UnwritablePath
from sessionizer.home.names import is_name
from sessionizer.stream_spec.decisions import check_sql
from sessionizer.stream_spec.document.names import parse_duration
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.sample import (
    Draft,
    Overrides,
    SampleColumn,
    find_text_form,
    guess_mapping,
    guess_payload,
    snake_case,
    spec_text,
)
from sessionizer.stream_spec.spec_folder import load_stream, parse_recorded_spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINES: Final = 20
_FILES: Final = 20
"""Number of files of a folder that are read for the types."""
_TOPIC: Final = re.compile(r"([^/\s]+:\d+)/([^/\s]+)")
Source: TypeAlias = "tuple[Mapping[str, Any], Callable[[SparkSession], tuple[list[SampleColumn], list[str]]]]"
"""The block of a source in a spec, and a function that returns the columns of its sample and their DDL."""
_COMPRESSED: Final = frozenset({".gz", ".bz2"})
KNOWN: Final = frozenset({"json", "jsonl", "ndjson", "csv", "tsv", "log", "txt", "parquet"})
"""Endings of files that a sample may have."""
_LONGEST_CELL: Final = 40
_GAP: Final = "30 minutes"


@shares("streams", "home", "master")
def init(  # noqa: PLR0913  one parameter per option
    at: Options,
    sample: Annotated[
        Path | None,
        typer.Argument(help="A file of JSON lines, CSV or Parquet, or a folder of them.", callback=require_local),
    ] = None,
    *,
    topic: Annotated[
        str | None, typer.Option(help="Topic of Kafka with JSON objects, as HOST:PORT/TOPIC, in place of a sample.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="Option of the topic's reader, such as kafka.security.protocol=SASL_SSL. May be repeated."),
    ] = None,
    option_from_environment: Annotated[
        list[str] | None,
        typer.Option(
            help="Secret option and its variable, such as kafka.sasl.jaas.config=KAFKA_JAAS. May be repeated."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the stream. Default: that of the file or the topic.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Column or SQL whose rows belong together, such as user_id.")] = None,
    time: Annotated[str | None, typer.Option(help="Column with the time, or SQL that makes a timestamp.")] = None,
    event_id: Annotated[str | None, typer.Option("--id", help="Column or SQL that distinguishes two events.")] = None,
    client: Annotated[str | None, typer.Option(help="Column or SQL of a site, shop or tenant.")] = None,
    gap: Annotated[str, typer.Option(help="Quiet time after which a session ends, such as '30 minutes'.")] = _GAP,
    zone: Annotated[str, typer.Option(help="Time zone of times that are written without one.")] = "UTC",
) -> None:
    """Write the spec of a stream from a sample of its events, and show what the first rows become.

    Each guess has a comment in the file. An existing file is never replaced.
    """
    if sample is None and topic is None:
        answer = typer.prompt("A file or a folder of events, or HOST:PORT/TOPIC of Kafka", err=True)
        sample, topic = (None, answer) if _TOPIC.fullmatch(answer) else (Path(answer), None)
    elif sample is not None and topic is not None:
        raise InvalidSpec("--topic", topic, "Omit it, because a sample is given")
    _check_option("--gap", gap, parse_duration, "a number and a unit, such as '30 minutes'")
    _check_option("--zone", zone, ZoneInfo, "a time zone, such as Europe/Berlin")
    platform, chosen = at.platform, Overrides(key, time, event_id, client, zone)
    named = name or snake_case(sample.absolute().name.partition(".")[0] if sample else str(topic).rpartition("/")[2])
    if not is_name(named):
        raise InvalidSpec("--name", named, "a lower-case letter, then lower-case letters, digits or underscores")
    file = at.specs / f"{named}.yaml"
    if file.exists():
        raise _exists(file)
    if sample is not None:
        source, read = _files_source(sample.expanduser().absolute())
    else:
        source, read = _topic_source(named, str(topic), option or (), option_from_environment or ())
    from sessionizer.spark.sinks.examine import examine  # noqa: PLC0415  fast --help

    with working_spark("init", named, at.master, "starting Spark to infer the columns") as spark:
        found, columns = read(spark)
        guesses = guess_mapping(found, chosen)
        text = spec_text(Draft(named, source, columns, guesses, guess_payload(found, guesses), gap))
        with name_options(chosen):
            spec = _check(text, file.name)
            examine(spark, spec, platform)
        _write(file, text)
        typer.echo(f"wrote {file}")
        for field, guess in (("key", guesses.key), ("time", guesses.time), ("id", guesses.event_id)):
            typer.echo(f"  {field:<5} {guess.sql}: {guess.why}")
        print_preview(spark, spec, platform)


def print_preview(spark: SparkSession, spec: StreamSpec, platform: Path) -> None:
    """Print what the first rows of the source become: events, sessions, and refused rows with their reasons."""
    from sessionizer.spark.history.sample import preview  # noqa: PLC0415  fast --help

    try:
        found = preview(spark, spec, platform)
    except (SessionizerError, OSError) as error:
        say(f"note: the first rows of {spec.name} cannot be shown: {error}")
        return
    rows = len(found.events) + len(found.refused)
    if not rows:
        typer.echo(f"the source of {spec.name} has no rows to show yet")
        return
    events = count_text(len(found.events), "event")
    typer.echo(f"the first {count_text(rows, 'row')} of {spec.name}, times in UTC: {events}")
    if found.events:
        rows_of_events = (map(_cell, row) for row in found.events)
        typer.echo(table_text(("key", "client", "time", "id"), rows_of_events, left=("key", "client", "id")))
    if found.sessions:
        columns = ("key", "client", "from", "to", "events", "ended by")
        typer.echo(f"as {count_text(len(found.sessions), 'session')}, if no more rows came:")
        rows_of_sessions = (map(_cell, row) for row in found.sessions)
        typer.echo(table_text(columns, rows_of_sessions, left=("key", "client", "ended by")))
    typer.echo(f"refused: {len(found.refused) or 'none'}")
    for reason, raw in found.refused:
        typer.echo(f"  {reason}: {_cell(raw)}")


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    text = "–" if value is None else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"


def _files_source(place: Path) -> Source:
    files, pattern = find_sample(place)
    form = find_text_form(files[0].name, [] if files[0].suffix == ".parquet" else list(first_lines(files[0])))
    folder = place if place.is_dir() else place.parent

    from sessionizer.spark.history.sample import sample_files  # noqa: PLC0415  fast --help

    return form.source(str(folder), pattern), lambda spark: sample_files(spark, files, folder, form)


def _topic_source(name: str, place: str, options: Sequence[str], of_environment: Sequence[str]) -> Source:
    """Return the block of a topic and what reads its records. Raises InvalidSpec, also for what a spec may not hold."""
    parts = _TOPIC.fullmatch(place)
    if parts is None:
        raise InvalidSpec("--topic", place, "the broker and the topic, such as localhost:9092/clicks")
    block: dict[str, Any] = {"format": "kafka", "bootstrap_servers": parts[1], "topic": parts[2], "encoding": "json"}
    given = {"options": options, "options_from_environment": of_environment}
    block |= {field: dict(each.partition("=")[::2] for each in pairs) for field, pairs in given.items() if pairs}
    mapping = dict.fromkeys(("key", "event_time", "event_id"), "c")
    document = {"name": name, "source": {**block, "columns": "c string"}, "mapping": mapping}
    source: Any = parse_recorded_spec(document, Path("--topic")).source

    from sessionizer.spark.history.sample import sample_topic  # noqa: PLC0415  fast --help

    return block, lambda spark: sample_topic(spark, source)


def _check_option(option: str, value: str, parse: Callable[[str], object], allowed: str) -> None:
    try:
        parse(value)
    except (OSError, ValueError, KeyError) as error:
        raise InvalidSpec(option, value, allowed) from error


def find_sample(place: Path) -> tuple[list[Path], str]:
    """Return the first files of the sample, all with one ending, and the pattern of their names. Raises InvalidSpec.

    The pattern keeps other files of the folder out of the stream.
    """
    if place.is_file():
        return [place], f"*{_ending(place)}"
    found = [each for each in sorted(place.rglob("*")) if each.is_file() and _is_read(each.relative_to(place))]
    endings = Counter(_ending(each) for each in found if KNOWN & {*_ending(each).split(".")[1:2]})
    if not endings:
        raise InvalidSpec("SAMPLE", str(place), "a file of JSON lines, CSV or Parquet, or a folder with such files")
    ending = endings.most_common(1)[0][0]
    return [each for each in found if _ending(each) == ending][:_FILES], f"*{ending}"


def _is_read(file: Path) -> bool:
    """Whether a stream reads the file: it is not hidden, and only folders such as ``day=2026-01-05`` are around it."""
    return file.name[:1] not in {".", "_"} and all("=" in folder for folder in file.parts[:-1])


def _ending(file: Path) -> str:
    """Return the ending of a name, with that before a compression's, empty if it has none."""
    return "".join(file.suffixes[-2:] if file.suffix in _COMPRESSED else file.suffixes[-1:])


def first_lines(file: Path) -> Iterator[str]:
    """Yield the first lines of a file of text, compressed or not. Raises InvalidSpec."""
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(file.suffix, open)
    try:
        with opener(file, "rt", encoding="utf-8-sig", errors="replace") as lines:
            yield from islice((line.rstrip("\r\n") for line in lines), _LINES)
    except OSError as error:
        raise InvalidSpec("SAMPLE", str(file), f"a readable file ({error.strerror or error})") from error


@contextmanager
def name_options(chosen: Overrides) -> Iterator[None]:
    """Name the option in place of the field in an InvalidSpec of the block, if the user has ``chosen`` the value."""
    options = {
        "mapping.key": chosen.key and "--key",
        "mapping.event_time": chosen.time and "--time",
        "mapping.event_id": chosen.event_id and "--id",
        "mapping.client": chosen.client and "--client",
    }
    try:
        yield
    except InvalidSpec as error:
        first, *others = (
            InvalidSpec(option, each.value, each.allowed) if (option := options.get(each.field)) else each
            for each in (error, *error.others)
        )
        first.others = others
        raise first from error


def _check(text: str, name: str) -> StreamSpec:
    with tempfile.TemporaryDirectory(prefix="sessionizer-init-") as folder:
        draft = Path(folder) / name
        draft.write_text(text, encoding="utf-8")
        spec = load_stream(draft)
    check_sql(spec)
    return spec


def _exists(file: Path) -> UnwritablePath:
    instead = "name another stream by --name, or move the file away"
    return UnwritablePath(file, "the spec", "it exists, and nothing is replaced", instead)


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise _exists(file) from error
    except OSError as error:
        raise UnwritablePath(file, "the spec", error.strerror or str(error)) from error
