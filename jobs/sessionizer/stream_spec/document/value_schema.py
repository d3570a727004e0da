"""The schema of values in bytes: a file beside the spec, and a registry of the schemas that values were written with.

A recorded spec holds the content of the file, because a stream runs by what was recorded, not by files.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from sessionizer.stream_spec.document.names import EnvironmentVariable, Text
from sessionizer.stream_spec.document.section import Section, refusal
from sessionizer.stream_spec.effect import BESIDE_THE_STREAM, FOR_NEW_ROWS, ColumnsEffect
from sessionizer.stream_spec.value_schemas.avro import avro_columns
from sessionizer.stream_spec.value_schemas.protobuf import protobuf_columns

if TYPE_CHECKING:
    from collections.abc import Callable

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
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise refusal(url, "a URL without credentials. Name their variable in credentials_from_environment")
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise refusal(url, "the URL of the registry, such as https://registry:8081")
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
