"""Guesses at a spec from a sample: which column is the key, the time, the id and the client, and the text of the file.

All of it follows from names, types and values. Spark infers the types elsewhere, and only it runs the expressions.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sessionizer.errors import InvalidSpec
from sessionizer.home.names import is_name
from sessionizer.stream_spec.document.names import RESERVED_NAMES

KEYS: Final = (
    "user_id", "user", "uid", "visitor_id", "visitor", "customer_id", "customer", "account_id", "member_id",
    "player_id", "anonymous_id", "distinct_id", "user_pseudo_id", "client_id", "device_id", "cookie_id", "cookie",
    "email", "client_ip", "remote_addr", "remote_host", "ip_address", "src_ip", "ip", "account", "member", "device",
    "kafka_key",
)  # fmt: skip
"""Names of columns that identify a user, the best first."""
TIMES: Final = (
    "event_time", "event_timestamp", "occurred_at", "timestamp", "ts", "time", "datetime", "date_time", "accept_date",
    "created_at", "created", "at", "started_at", "date",
)  # fmt: skip
IDS: Final = (
    "event_id", "message_id", "insert_id", "hit_id", "request_id", "unique_id", "transaction_id", "log_id", "uuid",
    "guid", "id",
)  # fmt: skip
CLIENTS: Final = ("tenant_id", "tenant", "client", "site_id", "site", "shop_id", "shop", "app_id", "app", "brand")
SCALARS: Final = re.compile("string|boolean|tinyint|smallint|int|bigint|float|double|decimal.*|date|timestamp.*")
NUMBERS: Final = re.compile("tinyint|smallint|int|bigint|float|double|decimal.*")
_FIRST_S, _LAST_S = 978_307_200, 4_102_444_800  # the years 2001 to 2099
UNITS: Final = {
    "seconds": (1, "timestamp_seconds({})"),
    "milliseconds": (1_000, "timestamp_millis({})"),
    "microseconds": (1_000_000, "timestamp_micros({})"),
    "nanoseconds": (1_000_000_000, "timestamp_micros({} div 1000)"),
}
"""How many of a unit a second has, and the expression that makes a timestamp of a number of them."""
_DAY, _CLOCK, _ZONE = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d([.,]\d+)?)?", r"(Z|[+-]\d\d:?\d\d)"
TEXTS: Final = (
    (rf"{_DAY}[T ]{_CLOCK} ?{_ZONE}", None, True),
    (rf"{_DAY}[T ]{_CLOCK}", None, False),
    (_DAY, None, False),
    (r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", "dd/MMM/yyyy:HH:mm:ss xx", True),
    (r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\.\d{3}", "dd/MMM/yyyy:HH:mm:ss.SSS", False),
    (r"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d", "dd/MMM/yyyy:HH:mm:ss", False),
    (r"\d{1,2}\.\d{1,2}\.\d{4} \d{1,2}:\d\d:\d\d", "d.M.yyyy H:mm:ss", False),
    (r"\d{1,2}\.\d{1,2}\.\d{4} \d{1,2}:\d\d", "d.M.yyyy H:mm", False),
    (r"\d{4}/\d{1,2}/\d{1,2} \d{1,2}:\d\d:\d\d", "yyyy/M/d H:mm:ss", False),
    (r"\d{4}/\d{1,2}/\d{1,2} \d{1,2}:\d\d", "yyyy/M/d H:mm", False),
    (r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d\d:\d\d", "M/d/yyyy H:mm:ss", False),
    (r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d\d", "M/d/yyyy H:mm", False),
)
"""Texts of a moment: pattern, Spark's format (None: ISO 8601, which it knows), and whether a zone is written."""
_SEPARATORS: Final = (",", ";", "\t", "|")
_MOST: Final = 0.9
"""Share of the values that must be of a form."""
_MOST_PAYLOAD: Final = 12
KAFKA: Final = "kafka"
"""The struct with what Kafka knows of a record, which is no part of its value."""
_LONG_TEXT: Final = 200


@dataclass(frozen=True, slots=True)
class SampleColumn:
    """A column or a field in a struct: the names that lead to it, Spark's name of its type, and its values.

    ``values`` are those of the rows of the sample, None where a row has none.
    """

    path: tuple[str, ...]
    kind: str
    values: tuple[Any, ...]

    @property
    def sql(self) -> str:
        """The column in SQL."""
        return ".".join(map(quote, self.path))

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it may be known by, in snake case: with and without the structs around it."""
        parts = [snake_case(each) for each in self.path]
        return tuple("_".join(parts[start:]) for start in range(1 if self.is_of_kafka else len(parts)))

    @property
    def is_of_kafka(self) -> bool:
        """Whether Kafka made the value, not a producer."""
        return self.path[0] == KAFKA

    @property
    def known(self) -> list[Any]:
        """The values that are not null."""
        return [each for each in self.values if each is not None and each != ""]

    @property
    def lacking(self) -> int:
        """The number of rows without a value."""
        return len(self.values) - len(self.known)

    @property
    def is_unique(self) -> bool:
        """Whether each row has a value of its own."""
        return bool(self.values) and len(set(map(str, self.known))) == len(self.values)


@dataclass(frozen=True, slots=True)
class Guess:
    """A guess at an expression: its ``sql``, ``why``, the names of its ``columns``, and what ``others`` there are."""

    sql: str | None
    why: str
    columns: tuple[tuple[str, ...], ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Overrides:
    """Choices of the user, each a column or SQL. None: a guess. ``zone`` is that of times without one."""

    key: str | None = None
    time: str | None = None
    event_id: str | None = None
    client: str | None = None
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Guesses:
    """The guesses at a mapping."""

    key: Guess
    time: Guess
    event_id: Guess
    client: Guess


def quote(name: str) -> str:
    """Return a name as SQL takes it."""
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"


def snake_case(name: str) -> str:
    """Return a name in lower case, its words joined by underscores."""
    words = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    return "_".join(words).lower()


def guess_mapping(columns: Sequence[SampleColumn], chosen: Overrides) -> Guesses:
    """Guess the mapping of a sample. Raises InvalidSpec if it has no key or no time, and none is chosen."""
    scalars = [each for each in columns if SCALARS.fullmatch(each.kind)]
    time = _guess_time(scalars, chosen)
    left = [each for each in scalars if each.path not in time.columns]
    key = _guess_key(left, chosen.key)
    left = [each for each in left if each.path not in key.columns]
    event_id = _guess_id(left, columns, chosen.event_id)
    left = [each for each in left if each.path not in event_id.columns]
    return Guesses(key, time, event_id, _guess_client(left, chosen.client))


def _ranked(columns: Iterable[SampleColumn], names: Sequence[str]) -> list[SampleColumn]:
    """Return the columns that have one of the names, the best first. Those that most rows lack come last."""
    ranks = {name: rank for rank, name in enumerate(names)}

    def place(column: SampleColumn) -> tuple[bool, int, int]:
        best = min(ranks[name] for name in column.names if name in ranks)
        return 2 * column.lacking > len(column.values), best, len(column.path)

    return sorted((column for column in columns if not ranks.keys().isdisjoint(column.names)), key=place)


def _chosen(columns: Iterable[SampleColumn], text: str) -> SampleColumn | None:
    return next((each for each in columns if text in {each.sql, ".".join(each.path)}), None)


def _take_chosen(columns: Iterable[SampleColumn], text: str, option: str) -> Guess:
    found = _chosen(columns, text)
    return Guess(text, f"chosen by {option}", (found.path,) if found else ())


def _sqls(columns: Iterable[SampleColumn]) -> tuple[str, ...]:
    return tuple(each.sql for each in columns)


def _guess_key(columns: Sequence[SampleColumn], chosen: str | None) -> Guess:
    if chosen is not None:
        return _take_chosen(columns, chosen, "--key")
    named = _ranked(columns, KEYS)
    repeated = [each for each in columns if not each.is_unique and len(set(map(str, each.known))) > 1]
    by_values = sorted(repeated, key=lambda each: -len(set(map(str, each.known))))
    candidates = named or by_values
    if not candidates:
        raise InvalidSpec("--key", None, f"the column whose rows belong together: {', '.join(_sqls(columns))}")
    best = candidates[0]
    why = "a guess by its name" if named else "a guess, because its values repeat, and no name tells"
    if best.lacking:
        why += f". {best.lacking} of {len(best.values)} rows lack it and are refused"
    others = [each for each in (*named, *by_values) if each is not best]
    return Guess(best.sql, why, (best.path,), tuple(dict.fromkeys(_sqls(others))))


def _guess_id(left: Sequence[SampleColumn], columns: Sequence[SampleColumn], chosen: str | None) -> Guess:
    if chosen is not None:
        return _take_chosen(left, chosen, "--id")
    unique = [each for each in left if each.is_unique]
    named = _ranked(unique, IDS) or [each for each in unique if each.names[-1].endswith(("_id", "uuid"))]
    if named:
        why = f"a guess: each of {len(named[0].values)} rows has a value of its own"
        return Guess(named[0].sql, why, (named[0].path,), _sqls(named[1:]))
    whole = ", ".join(dict.fromkeys(quote(each.path[0]) for each in columns if not each.is_of_kafka))
    why = "no column is an id, so it is a digest of the row: two rows alike count as one event"
    return Guess(f"sha2(to_json(struct({whole})), 256)", why)


def _guess_client(columns: Sequence[SampleColumn], chosen: str | None) -> Guess:
    if chosen is not None:
        return _take_chosen(columns, chosen, "--client")
    named = [each for each in _ranked(columns, CLIENTS) if not each.is_unique]
    if not named:
        return Guess(None, "no column is one: a site, shop or tenant with a timeout of its own")
    return Guess(named[0].sql, "a guess by its name", (named[0].path,), _sqls(named[1:]))


def _guess_time(columns: Sequence[SampleColumn], chosen: Overrides) -> Guess:
    if chosen.time is not None:
        found = _chosen(columns, chosen.time)
        read = None if found is None else read_time(found, chosen.zone)
        if found is None or read is None:
            return _take_chosen(columns, chosen.time, "--time")
        return Guess(read[0], f"chosen by --time: {read[1]}", (found.path,))
    readable = [(each, read) for each in columns if (read := read_time(each, chosen.zone)) is not None]
    named = _ranked([each for each, _ in readable], TIMES)
    ordered = [*named, *(each for each, _ in readable if each not in named)]
    if not ordered:
        allowed = f"SQL that makes a timestamp of columns of the sample: {', '.join(_sqls(columns))}"
        raise InvalidSpec("--time", None, allowed)
    sql, why = next(read for each, read in readable if each is ordered[0])
    others = tuple(f"{each.sql} ({read[1]})" for each, read in readable if each is not ordered[0])
    return Guess(sql, why, (ordered[0].path,), others)


def read_time(column: SampleColumn, zone: str) -> tuple[str, str] | None:
    """Return the expression that makes a timestamp of the column, and what it takes it for. None if it is no time.

    A few values may be of another form, because real files have such rows. The stream refuses them.
    """
    values, sql = column.known, column.sql
    if not values:
        return None
    if column.kind.startswith("timestamp") or column.kind == "date":
        return (sql, f"a {column.kind}") if column.kind == "timestamp" else _add_zone(sql, f"a {column.kind}", zone)
    texts = [str(each).strip() for each in values]
    numbers = [each for each in texts if re.fullmatch(r"-?\d+(\.\d+)?", each)]
    if NUMBERS.fullmatch(column.kind) or _are_most(numbers, texts):
        return _read_epoch(column, texts)
    if column.kind != "string":
        return None
    for pattern, known, has_zone in TEXTS:
        fitting = [each for each in texts if re.fullmatch(pattern, each)]
        if not _are_most(fitting, texts):
            continue
        form, doubt = _day_first(known, fitting)
        others = _describe_others(fitting, texts)
        parsed = f"try_to_timestamp({sql})" if form is None else f"try_to_timestamp({sql}, '{form}')"
        what = f"text in ISO 8601{doubt}" if form is None else f"text as {form}{doubt}"
        read, why = (parsed, f"{what}, with its zone") if has_zone else _add_zone(parsed, what, zone)
        return read, f"{why}{others}"
    return None


def _are_most(fitting: Sequence[object], texts: Sequence[str]) -> bool:
    return bool(fitting) and len(fitting) >= _MOST * len(texts)


def _describe_others(fitting: Sequence[object], texts: Sequence[str]) -> str:
    others = len(texts) - len(fitting)
    return f". {others} of {len(texts)} values are not like that and are refused" if others else ""


def _add_zone(sql: str, what: str, zone: str) -> tuple[str, str]:
    if zone == "UTC":
        return sql, f"{what} without a zone, taken as UTC: --zone Europe/Berlin for another"
    return f"to_utc_timestamp({sql}, '{zone}')", f"{what} without a zone, taken as the clock of {zone}"


def _day_first(form: str | None, texts: Sequence[str]) -> tuple[str | None, str]:
    """Decide between day and month, whichever comes first in ``form``. Say if the values leave it open."""
    if form is None or not form.startswith("M/d/"):
        return form, ""
    numbers = [tuple(map(int, each.split("/")[:2])) for each in texts]
    if any(first > 12 for first, _ in numbers):  # noqa: PLR2004  months of a year
        return form.replace("M/d/", "d/M/"), ""
    is_sure = any(second > 12 for _, second in numbers)  # noqa: PLR2004  months of a year
    return form, "" if is_sure else " (or d/M: no value tells day and month apart)"


def _read_epoch(column: SampleColumn, texts: Sequence[str]) -> tuple[str, str] | None:
    numbers = [float(each) for each in texts if re.fullmatch(r"-?\d+(\.\d*)?(E-?\d+)?", each, re.IGNORECASE)]
    for unit, (of_a_second, expression) in UNITS.items():
        fitting = [each for each in numbers if _FIRST_S * of_a_second <= each < _LAST_S * of_a_second]
        if _are_most(fitting, texts):
            is_text, is_whole = column.kind == "string", all(each.is_integer() for each in fitting)
            kind = "bigint" if is_whole or unit != "seconds" else "double"
            whole = re.fullmatch("tinyint|smallint|int|bigint", column.kind) or (unit == "seconds" and not is_text)
            number = column.sql if whole else f"try_cast({column.sql} as {kind})"
            others = _describe_others(fitting, texts)
            return expression.format(number), f"{unit} since 1970 ({column.kind}), by the size of its values{others}"
    return None


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of a text file: its ``encoding``, and for csv its separator and whether its first line has names."""

    encoding: str
    separator: str = ","
    has_header: bool = False

    def source(self, folder: str, pattern: str) -> dict[str, str | Mapping[str, str]]:
        """Return the block of a source of such files, whose names fit ``pattern``."""
        options = {"pathGlobFilter": pattern}
        if self.encoding == "csv":
            options |= {"header": str(self.has_header).lower()}
            options |= {} if self.separator == "," else {"sep": self.separator}
        return {"format": "files", "path": folder, "encoding": self.encoding, "options": options}


def find_text_form(name: str, lines: Sequence[str]) -> TextForm:
    """Return the form of a file by its ``name`` and its first ``lines``. Raises InvalidSpec."""
    suffix = Path(re.sub(r"\.(gz|bz2|zst)$", "", name.lower())).suffix
    if suffix == ".parquet":
        return TextForm("parquet")
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise InvalidSpec("SAMPLE", name, "a file with rows")
    if filled[0].lstrip().startswith("["):
        raise InvalidSpec("SAMPLE", name, "an object per line: for an array, `jq -c '.[]' FILE` writes that")
    if filled[0].lstrip().startswith("{"):
        return TextForm("json")
    separator = max(_SEPARATORS, key=lambda each: min(line.count(each) for line in filled))
    if separator not in filled[0] or suffix == ".json":
        allowed = "JSON with an object per line, CSV or Parquet. For other text: docs/sources.md"
        raise InvalidSpec("SAMPLE", name, allowed)
    first = [cell.strip().strip('"') for cell in filled[0].split(separator)]
    named = all(re.fullmatch(r"|[^\W\d][^:@]{0,60}", cell) for cell in first)
    if named and (len(set(first)) < len(first) or "" in first):
        raise InvalidSpec("SAMPLE", name, "a file whose header names each column, each once")
    return TextForm("csv", separator, has_header=named)


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts of a spec file. ``source``: its block. ``columns`` is DDL, one column each. ``gap`` is a duration."""

    name: str
    source: Mapping[str, str | Mapping[str, str]]
    columns: Sequence[str]
    guesses: Guesses
    payload: dict[str, str]
    gap: str


def guess_payload(columns: Iterable[SampleColumn], guesses: Guesses) -> dict[str, str]:
    """Return the columns that sessions keep of their events, by name, at most a dozen."""
    every = (guesses.key, guesses.time, guesses.event_id, guesses.client)
    used = {path for guess in every for path in guess.columns}
    found: dict[str, str] = {}
    for column in columns:
        is_short = all(len(str(each)) <= _LONG_TEXT for each in column.known)
        name = column.names[0] if column.names[0] not in RESERVED_NAMES else f"event_{column.names[0]}"
        fits = SCALARS.fullmatch(column.kind) and is_name(name) and name not in RESERVED_NAMES and name not in found
        if fits and not column.is_of_kafka and is_short and column.path not in used and len(found) < _MOST_PAYLOAD:
            found[name] = column.sql
    return found


def spec_text(draft: Draft) -> str:
    """Return the text of the spec file, with a comment on each guess."""
    return "".join(f"{line}\n" for line in _spec_lines(draft))


def _spec_lines(draft: Draft) -> Iterator[str]:
    yield f"# Guessed from a sample. Read each comment, then run `sessionizer spec check {draft.name} --deep`."
    yield f"name: {draft.name}"
    yield from ("", "source:")
    for field, value in draft.source.items():
        yield f"  {field}:{f' {scalar(value)}' if isinstance(value, str) else ''}"
        if not isinstance(value, str):
            yield from (f"    {name}: {json.dumps(each)}" for name, each in value.items())
    yield "  columns: >-  # as Spark inferred them from the sample"
    yield from (",\n".join(f"    {column}" for column in draft.columns)).split("\n")
    yield from ("", "mapping:")
    guesses = draft.guesses
    every = (guesses.key, guesses.time, guesses.event_id, guesses.client)
    for field, guess in zip(("key", "event_time", "event_id", "client"), every, strict=True):
        yield f"  # {guess.why}"
        if guess.others:
            yield f"  # also possible: {', '.join(guess.others)}"
        yield f"  {field}: {'null' if guess.sql is None else scalar(guess.sql)}"
    if draft.payload:
        yield "  payload:  # columns that sessions keep of their events"
        yield from (f"    {name}: {scalar(sql)}" for name, sql in draft.payload.items())
    yield from ("", "rules:", f"  gap_timeout: {draft.gap}  # quiet time after which a session ends")
    yield "  watermark_delay: 10 minutes  # longest delay of an event. A later one goes to late_events"


def scalar(text: str) -> str:
    """Return ``text`` as a scalar of YAML."""
    is_word = re.fullmatch(r"[A-Za-z_/][\w./()-]*", text)
    is_constant = re.fullmatch(r"(?i)null|true|false|yes|no|on|off|[yn]", text)
    return text if is_word and not is_constant else json.dumps(text, ensure_ascii=False)
