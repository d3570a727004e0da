"""Bounds on the cost of reading a YAML file, counted before anything is built.

An alias writes a block once and has it built many times: nine levels of nine give 400 million nodes. So aliases and
merge keys are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_BYTES: Final = 1_048_576
DEEPEST: Final = 50
MOST_NODES: Final = 20_000
LONGEST_NUMBER: Final = 100
"""Number of characters. YAML reads ``1:59:59`` in base 60, which takes the square of its length."""

_MERGE: Final = "<<"
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def require_bounds(events: Iterable[yaml.Event]) -> None:
    """Raise MarkedYAMLError, with the line, at the first event by which a document exceeds a bound."""
    nodes = depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise refusal_at(f"an alias (*{event.anchor}) is not read: write the value out", event)
        if isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and event.implicit[0]:
            raise refusal_at("merge keys (<<) are not read: write the keys out", event)
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise refusal_at("blocks nest too deeply", event)
        if nodes > MOST_NODES:
            raise refusal_at(f"more than {MOST_NODES} values", event)


def require_short_numbers(node: yaml.Node | None) -> None:
    """Raise YAMLError for a plain number longer than any meaningful one. ``node`` must be of bounded depth."""
    if isinstance(node, yaml.ScalarNode):
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            problem = f"a number of {len(node.value)} characters"
            raise refusal_at(problem, node)
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            for part in pair:
                require_short_numbers(part)
    elif isinstance(node, yaml.SequenceNode):
        for part in node.value:
            require_short_numbers(part)


def refusal_at(problem: str, event: yaml.Event | yaml.Node) -> yaml.MarkedYAMLError:
    """Return the error with the place of ``problem``."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=cast("yaml.Mark", event.start_mark))
