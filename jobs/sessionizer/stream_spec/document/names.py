"""The values that a spec holds: sections, names, expressions, places and durations, and the refusal of others."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from sessionizer.errors import InvalidSpec
from sessionizer.home.clock import DAY, HOUR, MINUTE, SECOND
from sessionizer.home.names import (
    LATE_EVENTS,
    NAME_PATTERN,
    OPEN_SESSIONS,
    QUARANTINE,
    SESSIONS,
    SESSIONS_DAILY,
    STREAM_HISTORY,
    TABLES,
    is_name,
)
from sessionizer.home.roots import NO_PATTERN, PATTERN, ObjectStore, object_store
from sessionizer.launch.driver_environment import is_airflows
from sessionizer.stream_spec.sql_words import nests_deeper


class Section(BaseModel):
    """A block of the YAML file: no unknown keys, no conversion between types, unchanged after reading.

    A duration is milliseconds in Python (``gap_timeout_ms``), and text with a unit in YAML (``gap_timeout``).
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        # a value may be a secret that was put in the wrong place
        hide_input_in_errors=True,
        alias_generator=lambda name: name.removesuffix("_ms"),
    )


REFUSED = "refused"


class Verbatim(str):
    """Text that a message prints as it stands, where ``repr`` would wrap it in quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the bare text."""
        return str(self)


MISSING = Verbatim("missing")


def refusal(value: object, allowed: str, *at: str) -> PydanticCustomError:
    """Build the error that a validator raises.

    ``at`` are the YAML keys that lead from the place of the validator to the value: none for a validator of the
    value itself, ``("mapping", "event_time")`` for a rule of the whole spec.
    """
    return PydanticCustomError(REFUSED, "{allowed}", {"value": value, "allowed": allowed, "at": at})


ANCHORED: Final = f"^{NAME_PATTERN}$"

SESSION_FACTS: Final = (
    "session_id", "key", "client", "date", "started_at", "ended_at", "duration_ms", "event_count", "close_reason",
)  # fmt: skip
"""Columns of the table ``sessions`` that tell of a session alone, in their order."""
EVENT_FIELDS: Final = frozenset({"event_time", "event_id", "closes"})
"""Fields that every event in ``sessions.events`` has beside its payload."""
RESERVED_NAMES: Final = frozenset({*SESSION_FACTS, "events", "lineage", "batch_id", "emitted_at"}) | EVENT_FIELDS
"""Columns of every ``sessions`` table, and of an event in it. A measure or a column of the same name would hide one."""


def check_stream_name(name: str) -> str:
    """Return ``name`` if it may name a directory, a column and a DAG alike."""
    if not is_name(name):
        raise refusal(name, "a lower-case letter, then at most 62 lower-case letters, digits or underscores")
    return name


def check_column(name: str) -> str:
    """Return ``name`` if it is a valid name of a payload column or a measure."""
    if name in RESERVED_NAMES:
        raise refusal(name, f"a name other than the built-in ones: {', '.join(sorted(RESERVED_NAMES))}")
    return check_stream_name(name)


def check_environment_variable(name: str) -> str:
    """Return ``name`` if it looks like an environment variable, which a pasted secret hardly does."""
    if not re.fullmatch("[A-Z][A-Z0-9_]*", name):
        raise refusal(name, "the name of an environment variable: upper-case letters, digits and underscores")
    if is_airflows(name):
        raise refusal(name, "another variable, because drivers do not get the variables of Airflow itself")
    return name


Name = Annotated[str, AfterValidator(check_stream_name), Field(json_schema_extra={"pattern": ANCHORED})]
ColumnName = Annotated[str, AfterValidator(check_column)]
EnvironmentVariable = Annotated[
    str, AfterValidator(check_environment_variable), Field(json_schema_extra={"pattern": "^[A-Z][A-Z0-9_]*$"})
]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Text that is not empty. Surrounding white space is removed."""


def split_url(url: str, allowed: str) -> SplitResult:
    """Return the parts of ``url``. Refuses one with a NUL, and one whose host or port is none."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.port != 0 and "\0" not in url:
            return parts
    raise refusal(url, allowed)


def check_place(place: str) -> str:
    """Return ``place``, a path or a URI, if it holds no credentials. hdfs:// and abfss:// have a name before the @."""
    before, _, host = split_url(place, "a path, or a URI such as s3://bucket/folder").netloc.rpartition("@")
    if host and (":" in before or (before and object_store(place) in {ObjectStore.S3, ObjectStore.GCS})):
        raise refusal(place, "a place without credentials. Put them into the environment of the driver")
    return place


def check_no_pattern(place: str) -> str:
    """Return ``place``, if Spark takes none of its characters for a pattern or the end of a name."""
    if PATTERN.search(place):
        raise refusal(place, NO_PATTERN)
    return place


Place = Annotated[Text, AfterValidator(check_place)]
TablesPlace = Annotated[Place, AfterValidator(check_no_pattern)]

_SUFFIXES: Final = {
    SESSIONS: "", QUARANTINE: "_quarantine", LATE_EVENTS: "_late_events", SESSIONS_DAILY: "_daily",
    STREAM_HISTORY: "_history", OPEN_SESSIONS: "_open",
}  # fmt: skip
TABLE_NAME_PATTERN: Final = rf"^(?:{NAME_PATTERN}\.)?{NAME_PATTERN}\.{NAME_PATTERN}$"


def check_table_name(name: str) -> str:
    """Return ``name`` if it may name a table in a schema, with or without its catalog."""
    if not re.fullmatch(TABLE_NAME_PATTERN, name):
        raise refusal(name, "schema.table or catalog.schema.table, each of lower-case letters, digits and underscores")
    return name


def catalog_names(table: str) -> dict[str, str]:
    """Return the name in a catalog of each table of a stream, whose sessions have the name ``table``."""
    return {name: f"{table}{_SUFFIXES[name]}" for name in TABLES}


TableName = Annotated[Text, AfterValidator(check_table_name), Field(json_schema_extra={"pattern": TABLE_NAME_PATTERN})]


@dataclass(frozen=True, slots=True)
class Sql:
    """Mark of text that is SQL."""


DEEPEST_SQL: Final = 200
"""Brackets within brackets. Plans read SQL by functions that call themselves, which Python limits."""


def check_depth(sql: str) -> str:
    """Return ``sql``, an expression or the types of columns, if its brackets are not too deep."""
    if nests_deeper(sql, DEEPEST_SQL):
        raise refusal(sql, f"SQL with at most {DEEPEST_SQL} brackets within each other")
    return sql


Ddl = Annotated[Text, AfterValidator(check_depth)]
"""Columns and their types in Spark's dialect."""
Expression = Annotated[Ddl, Sql()]
"""SQL in Spark's dialect. ``sql_guard`` decides what it may contain, and Spark parses it when the stream starts."""

COLUMN_NAMES_SCHEMA: Final[dict[str, JsonValue]] = {
    "propertyNames": {"pattern": ANCHORED, "not": {"enum": [*sorted(RESERVED_NAMES)]}}
}
"""JSON Schema of a block whose keys are column names."""

_LAST_PORT: Final = 65535


def check_brokers(addresses: str) -> str:
    """Return ``addresses`` if each of them has a host and a port."""
    for address in map(str.strip, addresses.split(",")):
        host, _, port = address.rpartition(":")
        is_host = host and "/" not in host and (":" not in host or host.startswith("["))
        if not (is_host and port.isascii() and port.isdecimal() and 0 < int(port) <= _LAST_PORT):
            host = address.rpartition("/")[2].partition(":")[0]
            # the port is the one in Kafka's own settings
            raise refusal(addresses, f"host:port of each broker, such as {host or 'localhost'}:9092")
    return addresses


Brokers = Annotated[Text, AfterValidator(check_brokers)]


MILLISECONDS_OF: Final = {"day": DAY, "hour": HOUR, "minute": MINUTE, "second": SECOND, "millisecond": 1}
"""Milliseconds in a unit, the longest unit first."""

LONGEST: Final = 36_500 * DAY
"""A century. A longer duration is a slip, and sums with event times stay far from the limits of 64 bits."""

DURATION_PATTERN: Final = f"^([1-9][0-9]{{0,14}}) ({'|'.join(MILLISECONDS_OF)})s?$"
DURATION_ALLOWED: Final = (
    "a whole number above 0 and a unit (milliseconds, seconds, minutes, hours, days), such as '30 seconds', "
    "up to 36500 days"
)


def parse_duration(text: object) -> int:
    """Return the milliseconds that ``text`` stands for. Refuses anything but a positive duration with a unit."""
    match = re.fullmatch(DURATION_PATTERN.strip("^$"), text) if isinstance(text, str) else None
    milliseconds = int(match[1]) * MILLISECONDS_OF[match[2]] if match else 0
    if not 0 < milliseconds <= LONGEST:
        raise refusal(text, DURATION_ALLOWED)
    return milliseconds


def format_duration(milliseconds: int) -> str:
    """Format ``milliseconds`` in the longest unit that needs no fraction. The inverse of ``parse_duration``."""
    unit, size = next((unit, size) for unit, size in MILLISECONDS_OF.items() if milliseconds % size == 0)
    count = milliseconds // size
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


_DURATION_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "string",
    "format": "duration-with-unit",
    "pattern": DURATION_PATTERN,
    "examples": ["30 seconds", "10 minutes", "1 hour"],
}
Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(_DURATION_SCHEMA),
]
"""Milliseconds, read from text such as ``30 seconds`` and written as such in JSON."""


def variable_of(name: str) -> str:
    """Return the variable that sets ``name``."""
    return f"SESSIONIZER_{name.upper()}"


def duration_from(environment: Mapping[str, str], name: str) -> int:
    """Parse ``SESSIONIZER_STALE_LIMIT="5 minutes"`` into ms, for the name ``stale_limit``.

    Raises InvalidSpec, KeyError.
    """
    variable = variable_of(name)
    try:
        return parse_duration(environment[variable])
    except ValueError as error:
        raise InvalidSpec(variable, environment[variable], "a duration such as '30 seconds' or '5 minutes'") from error
