"""The text of a spec: its YAML with the line of every key, the message about its problems, and its JSON Schema.

An alias writes a block once and has it built many times: nine levels of nine give 400 million nodes. So aliases and
merge keys are refused.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast, get_args, get_origin

import yaml
from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails

from sessionizer.counts import count_text
from sessionizer.errors import InvalidSpec
from sessionizer.redaction import redact
from sessionizer.stream_spec.document.names import MISSING, REFUSED, Section, Verbatim, format_duration
from sessionizer.stream_spec.document.reader_options import holds_secret
from sessionizer.stream_spec.document.source import SOURCES
from sessionizer.stream_spec.document.stream import StreamSpec

MOST_BYTES: Final = 1_048_576
DEEPEST: Final = 50
MOST_NODES: Final = 20_000
LONGEST_NUMBER: Final = 100
"""Number of characters. YAML reads ``1:59:59`` in base 60, which takes the square of its length."""
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def require_bounds(events: Iterable[yaml.Event]) -> None:
    """Raise MarkedYAMLError, with the line, at the first event by which a document exceeds a bound."""
    nodes = depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise refusal_at(f"an alias (*{event.anchor}) is not read: write the value out", event)
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            raise refusal_at("merge keys (<<) are not read: write the keys out", event)
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise refusal_at("blocks nest too deeply", event)
        if nodes > MOST_NODES:
            raise refusal_at(f"more than {MOST_NODES} values", event)


def require_short_numbers(node: yaml.Node | None) -> None:
    """Raise YAMLError for a plain number longer than any meaningful one. ``node`` must be of bounded depth."""
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
        raise refusal_at(f"a number of {len(node.value)} characters", node)
    if isinstance(node, yaml.CollectionNode):
        is_block = isinstance(node, yaml.MappingNode)
        for part in chain.from_iterable(node.value) if is_block else node.value:
            require_short_numbers(part)


def refusal_at(problem: str, event: yaml.Event | yaml.Node) -> yaml.MarkedYAMLError:
    """Return the error with the place of ``problem``."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=cast("yaml.Mark", event.start_mark))


# both construct plain data only; libyaml's is some ten times faster
SafeLoader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

YamlPath = tuple[str, ...]
"""The keys from the top of a document to a place in it."""


class YamlDocument:
    """A document of plain data (``data``) that knows its lines (``line_of``)."""

    def __init__(self, text: str, file: Path) -> None:
        """Read ``text``. Raises InvalidSpec for broken or boundless YAML, and for a key that is given twice."""
        self.lines: dict[YamlPath, int] = {}
        try:
            require_bounds(yaml.parse(text, Loader=SafeLoader))
            loader = SafeLoader(text)
            node = loader.get_single_node()
            require_short_numbers(node)
            self._note_lines(node, (), file)
            self.data: object = loader.construct_document(node) if node else None
        # a date such as 2026-99-99 is a ValueError, and `!!bool maybe` a KeyError
        except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
            raise broken_yaml(error, file) from None

    def line_of(self, path: Sequence[str]) -> int | None:
        """Return the line, counted from 1, of the key at ``path`` or of the closest block around it."""
        known = (tuple(path[:length]) for length in range(len(path), 0, -1))
        return next((self.lines[place] for place in known if place in self.lines), None)

    def _note_lines(self, node: yaml.Node | None, path: YamlPath, file: Path) -> None:
        if not isinstance(node, yaml.MappingNode):
            return
        for key, child in node.value:
            place, line = (*path, str(key.value)), key.start_mark.line + 1
            if place in self.lines:
                allowed = f"Remove one of the two: the other is on line {self.lines[place]}"
                raise InvalidSpec(".".join(place), Verbatim("given twice"), allowed, file=file, line=line)
            self.lines[place] = line
            self._note_lines(child, place, file)


def broken_yaml(error: Exception, file: Path) -> InvalidSpec:
    """Translate a syntax error into one of ours, with its line."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if isinstance(error, LookupError | AttributeError):
        problem = "a value does not fit its tag"
    line = mark.line + 1 if mark else None
    broken = Verbatim(f"broken ({problem})")
    if "mapping values are not allowed" in problem:
        allowed = "Put the value in quotes, or on the line below `>-`, because a colon before a space begins a block"
        return InvalidSpec("the YAML", broken, allowed, file=file, line=line)
    return InvalidSpec("the YAML", broken, "well-formed YAML", file=file, line=line)


LONGEST_SHOWN: Final = 80
UNKNOWN_KEY: Final = "extra_forbidden"
KNOCK_ON: Final = "default_factory_not_called"
"""Pydantic's error type for a default that depends on a field with a problem of its own."""


def _sections(model: type[Section], place: YamlPath) -> Iterator[tuple[YamlPath, type[Section]]]:
    yield place, model
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, Section):
                yield from _sections(kind, (*place, field.alias or name))


SECTIONS: Final[dict[YamlPath, type[Section]]] = dict(
    chain(_sections(StreamSpec, ()), *(_sections(model, ("source", tag)) for tag, model in SOURCES.items()))
)
"""The model of each block, by pydantic's location of it (a source is located by its format too)."""

ALLOWED: Final = {
    REFUSED: "{allowed}",
    "string_type": "text, in quotes if YAML would read it as something else",
    "string_too_short": "text that is not empty",
    "string_pattern_mismatch": "text that matches {pattern}",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "greater_than_equal": "a whole number of at least {ge}",
    "less_than_equal": "a whole number of at most {le}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "list_type": "a list, whose lines begin with `- `",
    "dict_type": "a block of `key: value` lines",
    "model_type": "a block of `key: value` lines",
    "model_attributes_type": "a block of `key: value` lines",
    "union_tag_invalid": "{expected_tags}",
    "union_tag_not_found": ", ".join(map(repr, SOURCES)),
}
"""Descriptions of the allowed values, by pydantic's type of error. ``{names}`` are facts of the error."""


def invalid_spec(error: ValidationError, document: YamlDocument, file: Path) -> InvalidSpec:
    """Return the first problem of ``error`` in ``document``, with the others beside it."""
    # an unknown key goes first: if misspelt, it explains the missing key
    first, *others = sorted(
        (problem for problem in error.errors(include_url=False) if problem["type"] != KNOCK_ON),
        key=lambda problem: problem["type"] != UNKNOWN_KEY,
    )
    count = f" ({count_text(len(others), 'more problem')} in this file)" if others else ""
    return _problem(first, count, document, file, [_problem(other, "", document, file) for other in others])


def _problem(
    problem: ErrorDetails, count: str, document: YamlDocument, file: Path, others: Sequence[InvalidSpec] = ()
) -> InvalidSpec:
    path = path_of(problem)
    if holds_secret(path):
        value: object = Verbatim("(hidden)")
    else:
        value = problem["input"] if is_key(problem) else show_yaml_value(value_at(document.data, path))
    allowed, line = describe_allowed(problem) + count, document.line_of(path)
    return InvalidSpec(".".join(path) or "the spec", value, allowed, file=file, line=line, others=others)


def path_of(problem: ErrorDetails) -> YamlPath:
    """Return the YAML keys that lead to ``problem``."""
    location = [str(step) for step in problem["loc"]]
    if is_key(problem):
        location[-2:] = [str(problem["input"])]
    if location[:1] == ["source"]:
        del location[1:2]  # the format, which pydantic puts in
    if problem["type"] in ("union_tag_invalid", "union_tag_not_found"):
        location.append("format")
    return (*location, *problem.get("ctx", {}).get("at", ()))


def is_key(problem: ErrorDetails) -> bool:
    """Tell whether ``problem`` is about a key that the author named, not about the value under it."""
    return problem["loc"][-1:] == ("[key]",)


def describe_allowed(problem: ErrorDetails) -> str:
    """Return the allowed value for ``problem``."""
    # every block of a list is of one model
    section = SECTIONS.get(tuple(str(step) for step in problem["loc"][:-1] if not isinstance(step, int)))
    fields, key = section.model_fields if section else {}, str(problem["loc"][-1]) if problem["loc"] else ""
    known = {field.alias or name: field.description or "" for name, field in fields.items()}
    if problem["type"] == UNKNOWN_KEY and section:
        close = difflib.get_close_matches(key, known, n=1)
        return f"a known key. Did you mean '{close[0]}'?" if close else f"a known key: {', '.join(known)}"
    if problem["type"] == "missing" and section:
        return f"Add it. {known[key]}"
    template = ALLOWED.get(problem["type"])
    return template.format_map(problem.get("ctx", {})) if template else problem["msg"]


def value_at(data: object, path: YamlPath) -> object:
    """Return the value at ``path``, or MISSING."""
    for step in path:
        if isinstance(data, list) and step.isdigit() and int(step) < len(data):
            data = data[int(step)]
        elif isinstance(data, dict):
            data = next((value for key, value in data.items() if str(key) == step), MISSING)
        else:
            return MISSING
    return data


def show_yaml_value(value: object) -> object:
    """Return ``value`` in YAML's words, without credentials, and at a readable length."""
    if isinstance(value, dict | list):
        return Verbatim("a list" if isinstance(value, list) else "a block")
    if value is None or isinstance(value, bool):
        return Verbatim({None: "null", True: "true", False: "false"}[value])
    if isinstance(value, str) and not isinstance(value, Verbatim):
        value = redact(value)
    written = repr(value)
    return value if len(written) <= LONGEST_SHOWN else Verbatim(written[:LONGEST_SHOWN] + "…")


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
        is_duration = any(each.get("format") == "duration-with-unit" for each in (node, *node.get("anyOf", ())))
        if is_duration and isinstance(node.get("default"), int):
            node["default"] = format_duration(node["default"])
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            durations_as_text(child)


def stream_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a stream spec as it is written in YAML."""
    return StreamSpec.model_json_schema(by_alias=True, schema_generator=SpecJsonSchema)


def stream_schema_text() -> str:
    """Return the schema as the published file has it."""
    return json.dumps(stream_schema(), indent=2) + "\n"
