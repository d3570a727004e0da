"""The sources of a stream's events, their options, and the schemas of their values.

A recorded spec holds the content of a schema's file, because a stream runs by what was recorded, not by files.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from sessionizer.stream_spec.document.names import (
    Brokers,
    Ddl,
    EnvironmentVariable,
    Place,
    Section,
    Text,
    refusal,
    split_url,
)
from sessionizer.stream_spec.document.reader_options import CLASS, PROGRAM, PROVIDER, SECRET, unfit_option
from sessionizer.stream_spec.effect import (
    BESIDE_THE_STREAM,
    FOR_NEW_ROWS,
    ColumnsEffect,
    FieldEffect,
    OptionsEffect,
    Verdict,
)
from sessionizer.stream_spec.schema_columns import avro_columns, protobuf_columns


def option_text(value: object) -> object:
    """Return a YAML scalar as Spark reads options: ``true`` and ``10`` need no quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


OptionValue = Annotated[str, BeforeValidator(option_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]


class SourceSection(Section):
    """A source of events."""

    keeps_events: ClassVar[bool] = True
    """Whether its events can be read again."""


class SourceWithOptions(SourceSection):
    """A source that takes options of Spark's reader."""

    reader_field: ClassVar[str] = "format"
    """Field with the name of the reader, as ``ReaderOptions`` has it."""
    where_else: ClassVar[str] = "set it in Spark's own configuration on the driver's machine"
    """Advice for an option that must not be in a file that is checked in."""

    options: Annotated[dict[str, OptionValue], OptionsEffect("source option changed", FOR_NEW_ROWS)] = Field(
        default_factory=dict,
        description="Options of Spark's reader, with Spark's names. No secrets.",
        examples=[{"maxFilesPerTrigger": "100"}],
    )

    @model_validator(mode="after")
    def _options_are_plain_and_fit_the_reader(self) -> Self:
        refused = {SECRET: "holds no secret", CLASS: "loads no class", PROGRAM: "starts no program"}
        for pattern, why in refused.items():
            for option, value in self.options.items():
                if pattern.search(option):
                    allowed = f"Remove it, because a spec {why}. Instead, {self.where_else.format(option=option)}"
                    raise refusal(value, allowed, "options", option)
        self.check_options("options", self.options)
        return self

    def check_options(self, block: str, options: dict[str, str]) -> None:
        """Refuse ``options`` (written under ``block``) that the reader of this source does not take."""
        for option, value in options.items():
            if (allowed := unfit_option(option, value, getattr(self, self.reader_field))) is not None:
                raise refusal(value, allowed, block, option)


IN_BYTES: Final = frozenset({"avro", "protobuf"})
"""Encodings of values in bytes, whose schema gives the columns."""
READ_BESIDE: Final = "read_beside"
"""Name, in the context of a validation, of the function that reads a file beside the spec."""
COLUMNS: Final = ColumnsEffect("source column", FOR_NEW_ROWS)
"""Effect of the columns of a source."""
_BESIDE: Final = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
_WORD_OF_SUBJECT: Final = "^[^\\s/?#%]{1,255}$"


class ValueSchema(Section):
    """A schema as it was when the spec was read."""

    file: Annotated[Text, BESIDE_THE_STREAM] = Field(description="File that the schema was read from, beside the spec.")
    columns: Annotated[str, COLUMNS] = Field(
        description="Columns of the source that follow from the schema, as Spark DDL."
    )
    content: str = Field(description="Content of the file: JSON of Avro, or a FileDescriptorSet of Protobuf in base64.")


def check_registry_url(url: str) -> str:
    """Return ``url`` if a registry may be asked there."""
    allowed = "the URL of the registry, such as https://registry:8081"
    parts = split_url(url, allowed)
    if parts.username is not None or parts.password is not None:
        raise refusal(url, "a URL without credentials. Name their variable in credentials_from_environment")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise refusal(url, allowed)
    return url.rstrip("/")


class Registry(Section):
    """A registry of schemas that speaks Confluent's REST API."""

    url: Annotated[Text, AfterValidator(check_registry_url)] = Field(
        description="Address of the registry, http or https.", examples=["https://registry:8081"]
    )
    subject: Annotated[Text, Field(pattern=_WORD_OF_SUBJECT)] = Field(
        description="Subject whose versions the values are written with.", examples=["clicks-value"]
    )
    version: int | None = Field(
        default=None,
        ge=1,
        le=2**31 - 1,
        description="Version of the subject that gives the columns, for avro without `source.schema`.",
    )
    credentials_from_environment: EnvironmentVariable | None = Field(
        default=None,
        description="Environment variable that holds `user:password` for the registry when the driver starts.",
        examples=["KAFKA_REGISTRY_LOGIN"],
    )


def read_schema(file: str, encoding: str, message: str | None, read: Callable[[str], bytes]) -> ValueSchema:
    """Return the schema in ``file``. ``read`` gives the bytes of a file beside the spec, and raises OSError."""
    if not _BESIDE.fullmatch(file):
        raise refusal(file, "the name of a file in the spec's folder or below, such as clicks.avsc")
    try:
        content = read(file)
    except OSError as error:
        raise refusal(file, f"a readable file beside the spec ({error.strerror or error})") from error
    try:
        if encoding == "protobuf":
            # a missing message is refused with the other fields
            columns = protobuf_columns(content, message) if message else ""
            return ValueSchema(file=file, columns=columns, content=base64.b64encode(content).decode())
        text = content.decode("utf-8")
        return ValueSchema(file=file, columns=avro_columns(text), content=text)
    except RecursionError as error:
        raise refusal(file, "the name of a file with a schema that is less deep") from error
    except ValueError as error:
        raise refusal(file, f"the name of a file with {error}") from error


def check_value_schema(
    encoding: str, schema: ValueSchema | None, message: str | None, registry: Registry | None
) -> None:
    """Refuse fields of a schema that ``encoding`` lacks, or that it does not have."""
    version = registry.version if registry else None
    if encoding not in IN_BYTES:
        for field, value in (("schema", schema), ("message", message), ("registry", registry)):
            if value is not None:
                raise refusal(value, f"Omit it, because {encoding} has no schema", field)
        return
    if encoding == "avro" and message is not None:
        raise refusal(message, "Omit it, because an Avro schema is of one record", "message")
    if encoding == "protobuf" and message is None:
        raise refusal(None, "the full name of the message that a value is, such as shop.Click", "message")
    if version is not None and (encoding == "protobuf" or schema is not None):
        raise refusal(version, "Omit it, because source.schema gives the columns", "registry", "version")
    if schema is None and version is None:
        other = ", or registry.version" if encoding == "avro" else ""
        raise refusal(None, f"the name of a file beside the spec with the schema of a value{other}", "schema")


ANOTHER_TYPE: Final = FieldEffect(
    "source of another type",
    "where the other source begins must be said",
    Verdict.INCOMPATIBLE,
    "Run `sessionizer switch {stream} --start-at WHERE`",
    command="switch {stream} --start-at WHERE",
    refused=" to continue elsewhere than at {before!r}",
)
RE_POINTED: Final = replace(ANOTHER_TYPE, kind="source re-pointed")
"""Effect of a field that selects the events. Brokers may move, and the format of rows may change."""
ENCODING: Final = FieldEffect("encoding changed", FOR_NEW_ROWS)
SOCKET: Final = FieldEffect("socket moved", "lines of a socket are read once wherever it is")

Topics = Annotated[str, Field(pattern="^[A-Za-z0-9._-]{1,249}(,[A-Za-z0-9._-]{1,249})*$")]


class FilesSource(SourceWithOptions):
    """A folder into which files are moved. Each file is read once."""

    reader_field = "encoding"

    format: Annotated[Literal["files"], ANOTHER_TYPE] = Field(description="A folder of files.")
    path: Annotated[Place, RE_POINTED] = Field(
        description="Folder of the files, relative to the platform home (SESSIONIZER_HOME) unless absolute or a URI.",
        examples=["feed/clicks"],
    )
    encoding: Annotated[Literal["json", "csv", "parquet", "text"], ENCODING] = Field(
        description="How the files are written: json (an object per line), csv, parquet, or text (a row per line, in "
        "the column `value`)."
    )
    columns: Annotated[Ddl | None, COLUMNS] = Field(
        default=None,
        description="Columns and their types as Spark DDL. Needed for json, csv and parquet. text has `value` only.",
        examples=["user_id string, ts bigint"],
    )

    @model_validator(mode="after")
    def _columns_fit_the_encoding(self) -> Self:
        check_columns(self.encoding, self.columns)
        return self


class DeltaSource(SourceWithOptions):
    """A Delta table that rows are appended to."""

    format: Annotated[Literal["delta"], ANOTHER_TYPE] = Field(description="A Delta table.")
    path: Annotated[Place, RE_POINTED] = Field(
        description="Folder of the table, relative to the platform home (SESSIONIZER_HOME) unless absolute or a URI. "
        "Its columns are those of the table.",
        examples=["lake/events"],
    )


class KafkaSource(SourceWithOptions):
    """Kafka topics: one, or several."""

    where_else = "name its environment variable under options_from_environment.{option}"

    format: Annotated[Literal["kafka"], ANOTHER_TYPE] = Field(
        description="Kafka topics. A mapping may also use the struct kafka: key (string), topic, partition, offset, "
        "timestamp and headers of the record."
    )
    bootstrap_servers: Annotated[
        Brokers, FieldEffect("brokers moved", "the topic and the position in it stay", plans_only=True)
    ] = Field(
        description="Brokers to ask first, as host:port, separated by commas.", examples=["broker-1:9092,broker-2:9092"]
    )
    topic: Annotated[Topics, RE_POINTED] = Field(
        description="Topic to read, or several separated by commas.", examples=["clicks", "clicks-eu,clicks-us"]
    )
    starting_offsets: Annotated[
        Literal["earliest", "latest"],
        FieldEffect("start of a new checkpoint changed", "a lineage goes on where it was", plans_only=True),
    ] = Field(default="earliest", description="Where a new checkpoint begins. An existing one resumes at its position.")
    accept_compaction: Annotated[
        bool, FieldEffect("compaction accepted or refused", "records that are gone are not read either way")
    ] = Field(
        default=False,
        description="Whether topics may be compacted (cleanup.policy). The broker removes a record if a newer one has "
        "its key, also if the stream has not read it.",
    )
    encoding: Annotated[Literal["json", "text", "avro", "protobuf"], ENCODING] = Field(
        description="How a record's value is written: json (an object), text (in the column `value`), avro or protobuf "
        "(in bytes)."
    )
    columns: Annotated[Ddl | None, COLUMNS] = Field(
        default=None,
        description="Columns of the JSON object and their types as Spark DDL. Needed for json. text has `value` only.",
        examples=["user_id string, ts bigint"],
    )
    message: Annotated[Text | None, FieldEffect("message changed", FOR_NEW_ROWS)] = Field(
        default=None, description="Full name of the message that a value is, for protobuf.", examples=["shop.Click"]
    )
    value_schema: Annotated[
        ValueSchema | None,
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        FieldEffect("schema changed", FOR_NEW_ROWS),
    ] = Field(
        default=None,
        alias="schema",
        description="File beside the spec with the schema that gives the columns: a record of Avro in JSON, or a "
        "descriptor set of Protobuf.",
        examples=["clicks.avsc"],
    )
    registry: Annotated[Registry | None, FieldEffect("registry changed", FOR_NEW_ROWS)] = Field(
        default=None,
        description="Registry of schemas. With it, values begin with Confluent's header, which names the schema that "
        "each was written with.",
    )
    options_from_environment: Annotated[
        dict[str, EnvironmentVariable], FieldEffect("source secret changed", FOR_NEW_ROWS, plans_only=True)
    ] = Field(
        default_factory=dict,
        description="Options whose value is a secret: option name to the name of the environment variable that "
        "holds it when the driver starts.",
        examples=[{"kafka.sasl.jaas.config": "KAFKA_JAAS"}],
    )

    @model_validator(mode="after")
    def _options_stand_for_themselves(self) -> Self:
        for option in {**self.options, **self.options_from_environment}:
            if PROVIDER.search(option):
                allowed = "Remove it, because with it Kafka replaces ${...} in the other options"
                raise refusal(option, allowed, "options")
        self.check_options("options_from_environment", self.options_from_environment)
        for option in self.options_from_environment.keys() & self.options.keys():
            raise refusal(self.options[option], "Give it in one of the two blocks only", "options", option)
        return self

    @field_validator("value_schema", mode="before")
    @classmethod
    def _schema_is_read(cls, value: object, info: ValidationInfo) -> object:
        read = (info.context or {}).get(READ_BESIDE)
        if value is None or read is None:
            return value  # a recorded spec has the content
        if not isinstance(value, str):
            raise refusal(value, "the name of a file beside the spec")
        return read_schema(value, info.data.get("encoding", ""), info.data.get("message"), read)

    @model_validator(mode="after")
    def _columns_fit_the_encoding(self) -> Self:
        check_columns(self.encoding, self.columns)
        check_value_schema(self.encoding, self.value_schema, self.message, self.registry)
        return self

    @property
    def environment_variables(self) -> frozenset[str]:
        """Variables of the driver's environment that the source needs."""
        login = self.registry.credentials_from_environment if self.registry else None
        return frozenset({*self.options_from_environment.values(), *([login] if login else [])})


class SocketSource(SourceSection):
    """Lines of text from a TCP socket. They cannot be read twice, so it is for trials only."""

    keeps_events = False

    format: Annotated[Literal["socket"], ANOTHER_TYPE] = Field(
        description="A TCP socket. Lines lost in a crash stay lost: for trials only."
    )
    host: Annotated[Text, SOCKET] = Field(description="Host to connect to.", examples=["localhost"])
    port: Annotated[int, SOCKET] = Field(ge=1, le=65535, description="Port to connect to, 1 to 65535.")
    encoding: Annotated[Literal["json", "text"], ENCODING] = Field(
        default="text", description="How a line is written: json (an object), or text (in the column `value`)."
    )
    columns: Annotated[Ddl | None, COLUMNS] = Field(
        default=None,
        description="Columns of the JSON object and their types as Spark DDL. Needed for json. text has `value` only.",
        examples=["user_id string, ts bigint"],
    )

    @model_validator(mode="after")
    def _columns_fit_the_encoding(self) -> Self:
        check_columns(self.encoding, self.columns)
        return self


def check_columns(encoding: str, columns: str | None) -> None:
    """Refuse ``columns`` that are missing, or that an encoding does not have."""
    if encoding == "text" and columns is not None:
        raise refusal(columns, "Omit it, because text has the column `value` only", "columns")
    if encoding in IN_BYTES and columns is not None:
        raise refusal(columns, "Omit it, because the schema gives the columns", "columns")
    if encoding not in {"text", *IN_BYTES} and columns is None:
        raise refusal(None, f"columns and types as Spark DDL, which {encoding} needs", "columns")


Source = Annotated[FilesSource | DeltaSource | KafkaSource | SocketSource, Field(discriminator="format")]

SOURCES: Final[dict[str, type[SourceSection]]] = {
    "files": FilesSource,
    "delta": DeltaSource,
    "kafka": KafkaSource,
    "socket": SocketSource,
}
"""The models of the sources by their ``format``."""
