"""The JSON Schema of stream specs, with which editors complete and check them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue

from sessionizer.stream_spec.document.duration import format_duration
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

SCHEMA_FILE: Final = "stream.schema.json"
"""Name of the published schema, in the folder of the specs."""


class SpecJsonSchema(GenerateJsonSchema):
    """Pydantic's schema, without a title for each field."""

    schema_dialect = "https://json-schema.org/draft/2020-12/schema"

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - pydantic's signature
        """Return False: a title that repeats the key hides the description in editors."""
        return False

    def generate(self, schema: CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        """Return the schema with its dialect, and with the defaults of durations as text."""
        generated = super().generate(schema, mode)
        durations_as_text(generated)
        return {"$schema": self.schema_dialect, **generated, "title": "Stream spec"}


def durations_as_text(node: Any) -> None:  # noqa: ANN401 - any JSON
    """Rewrite, in place, the defaults of all durations below ``node`` from milliseconds to text."""
    if isinstance(node, dict):
        if is_duration(node) and isinstance(node.get("default"), int):
            node["default"] = format_duration(node["default"])
        for child in node.values():
            durations_as_text(child)
    elif isinstance(node, list):
        for child in node:
            durations_as_text(child)


def is_duration(node: dict[str, Any]) -> bool:
    """Tell whether the schema ``node`` describes a duration, nullable or not."""
    return any(branch.get("format") == "duration-with-unit" for branch in (node, *node.get("anyOf", ())))


def stream_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a stream spec as it is written in YAML."""
    return StreamSpec.model_json_schema(by_alias=True, schema_generator=SpecJsonSchema)


def stream_schema_text() -> str:
    """Return the schema as the published file has it."""
    return json.dumps(stream_schema(), indent=2) + "\n"
