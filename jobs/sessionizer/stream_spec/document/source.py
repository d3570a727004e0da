"""The sources of a stream's events."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator, model_validator

from sessionizer.stream_spec.document.names import Brokers, EnvironmentVariable, Place, Text
from sessionizer.stream_spec.document.secrets import replaces_values
from sessionizer.stream_spec.document.section import Section, refusal
from sessionizer.stream_spec.document.source_options import BY_ENVIRONMENT, SourceWithOptions
from sessionizer.stream_spec.document.value_schema import (
    COLUMNS,
    IN_BYTES,
    READ_BESIDE,
    Registry,
    ValueSchema,
    check_value_schema,
    read_schema,
)
from sessionizer.stream_spec.effect import FOR_NEW_ROWS, Effect, Verdict

_BEGINS: Final = "where the other source begins must be said"
_SWITCH: Final = "switch {stream} --start-at WHERE"
_ELSEWHERE: Final = " to continue elsewhere than at {before!r}"
ANOTHER_TYPE: Final = Effect(
    "source of another type", _BEGINS, Verdict.INCOMPATIBLE, f"Run `sessionizer {_SWITCH}`", _SWITCH, _ELSEWHERE
)
RE_POINTED: Final = replace(ANOTHER_TYPE, kind="source re-pointed")
"""Effect of a field that selects the events. Brokers may move, and the format of rows may change."""
ENCODING: Final = Effect("encoding changed", FOR_NEW_ROWS)
SOCKET: Final = Effect("socket moved", "lines of a socket are read once wherever it is")

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
        "the column `value`).",
    )
    columns: Annotated[Text | None, COLUMNS] = Field(
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

    where_else = BY_ENVIRONMENT

    format: Annotated[Literal["kafka"], ANOTHER_TYPE] = Field(
        description="Kafka topics. A mapping may also use the struct kafka: key (string), topic, partition, offset, "
        "timestamp and headers of the record.",
    )
    bootstrap_servers: Annotated[
        Brokers, Effect("brokers moved", "the topic and the position in it stay", plans_only=True)
    ] = Field(
        description="Brokers to ask first, as host:port, separated by commas.",
        examples=["broker-1:9092,broker-2:9092"],
    )
    topic: Annotated[Topics, RE_POINTED] = Field(
        description="Topic to read, or several separated by commas.",
        examples=["clicks", "clicks-eu,clicks-us"],
    )
    starting_offsets: Annotated[
        Literal["earliest", "latest"],
        Effect("start of a new checkpoint changed", "a lineage goes on where it was", plans_only=True),
    ] = Field(
        default="earliest",
        description="Where a new checkpoint begins. An existing one resumes at its position.",
    )
    accept_compaction: Annotated[
        bool, Effect("compaction accepted or refused", "records that are gone are not read either way")
    ] = Field(
        default=False,
        description="Whether topics may be compacted (cleanup.policy). The broker removes a record if a newer one has "
        "its key, also if the stream has not read it.",
    )
    encoding: Annotated[Literal["json", "text", "avro", "protobuf"], ENCODING] = Field(
        description="How a record's value is written: json (an object), text (in the column `value`), avro or protobuf "
        "(in bytes).",
    )
    columns: Annotated[Text | None, COLUMNS] = Field(
        default=None,
        description="Columns of the JSON object and their types as Spark DDL. Needed for json. text has `value` only.",
        examples=["user_id string, ts bigint"],
    )
    message: Annotated[Text | None, Effect("message changed", FOR_NEW_ROWS)] = Field(
        default=None,
        description="Full name of the message that a value is, for protobuf.",
        examples=["shop.Click"],
    )
    value_schema: Annotated[
        ValueSchema | None,
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        Effect("schema changed", FOR_NEW_ROWS),
    ] = Field(
        default=None,
        alias="schema",
        description="File beside the spec with the schema that gives the columns: a record of Avro in JSON, or a "
        "descriptor set of Protobuf.",
        examples=["clicks.avsc"],
    )
    registry: Annotated[Registry | None, Effect("registry changed", FOR_NEW_ROWS)] = Field(
        default=None,
        description="Registry of schemas. With it, values begin with Confluent's header, which names the schema that "
        "each was written with.",
    )
    options_from_environment: Annotated[
        dict[str, EnvironmentVariable], Effect("source secret changed", FOR_NEW_ROWS, plans_only=True)
    ] = Field(
        default_factory=dict,
        description="Options whose value is a secret: option name to the name of the environment variable that "
        "holds it when the driver starts.",
        examples=[{"kafka.sasl.jaas.config": "KAFKA_JAAS"}],
    )

    @model_validator(mode="after")
    def _options_stand_for_themselves(self) -> Self:
        for option in {**self.options, **self.options_from_environment}:
            if replaces_values(option):
                allowed = "Remove it, because with it Kafka replaces ${...} in the other options"
                raise refusal(option, allowed, "options")
        return self

    @model_validator(mode="after")
    def _environment_adds_to_options(self) -> Self:
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


class SocketSource(Section):
    """Lines of text from a TCP socket. They cannot be read twice, so it is for trials only."""

    format: Annotated[Literal["socket"], ANOTHER_TYPE] = Field(
        description="A TCP socket. Lines lost in a crash stay lost: for trials only."
    )
    host: Annotated[Text, SOCKET] = Field(description="Host to connect to.", examples=["localhost"])
    port: Annotated[int, SOCKET] = Field(ge=1, le=65535, description="Port to connect to, 1 to 65535.")
    encoding: Annotated[Literal["json", "text"], ENCODING] = Field(
        default="text",
        description="How a line is written: json (an object), or text (in the column `value`).",
    )
    columns: Annotated[Text | None, COLUMNS] = Field(
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

SOURCES: Final[dict[str, type[Section]]] = {
    "files": FilesSource,
    "delta": DeltaSource,
    "kafka": KafkaSource,
    "socket": SocketSource,
}
"""The models of the sources by their ``format``."""
