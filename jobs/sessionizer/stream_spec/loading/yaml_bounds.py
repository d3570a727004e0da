"""Bounds on the cost of reading a YAML file of a few hundred bytes. It is counted before anything is built.

Aliases and merge keys write a block once and have it built many times: nine levels of nine give 400 million nodes. So
each alias counts as much as the block that it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(slots=True)
class Extent:
    """The size of a part of a document when every alias in it is written out."""

    nodes: int = 1
    depth: int = 0

    def take(self, part: Extent) -> None:
        """Add a part that is inside this one."""
        self.nodes += part.nodes
        self.depth = max(self.depth, part.depth + 1)


class Survey:
    """A count of a document's nodes, event by event."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, Extent]] = [(None, Extent())]
        self._known: dict[str, Extent] = {}

    @property
    def nodes(self) -> int:
        """Number of values and keys of the document so far."""
        return sum(extent.nodes for _, extent in self._open) - 1

    def see(self, event: yaml.Event) -> None:
        """Count the next event. Raises MarkedYAMLError, with the line, if the document exceeds a bound."""
        if isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, Extent()))
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(*self._open.pop())
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.ScalarEvent):
            if event.value == _MERGE and event.implicit[0]:
                raise refused("merge keys (<<) are not read: write the keys out", event)
            self._close(event.anchor, Extent())
        self._require_bounds(event)

    def _alias(self, event: yaml.AliasEvent) -> None:
        known = self._known.get(event.anchor or "")
        if known is not None:
            self._open[-1][1].take(known)
        elif any(anchor == event.anchor for anchor, _ in self._open):
            raise refused(f"*{event.anchor} holds itself", event)

    def _close(self, anchor: str | None, extent: Extent) -> None:
        self._open[-1][1].take(extent)
        if anchor is not None:
            self._known[anchor] = extent

    def _require_bounds(self, event: yaml.Event) -> None:
        inner = self._open[-1][1]
        if len(self._open) - 1 + inner.depth > DEEPEST + 1:
            raise refused("blocks nest too deeply", event)
        if self.nodes > MOST_NODES:
            raise refused(f"more than {MOST_NODES} values, each alias counted as what it stands for", event)


def require_bounds(events: Iterable[yaml.Event]) -> Survey:
    """Count the events of a document. Raises YAMLError for a document that no spec is like."""
    survey = Survey()
    for event in events:
        survey.see(event)
    return survey


def require_short_numbers(node: yaml.Node | None) -> None:
    """Raise YAMLError for a plain number longer than any meaningful one. ``node`` must be of bounded depth."""
    if isinstance(node, yaml.ScalarNode):
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            problem = f"a number of {len(node.value)} characters"
            raise refused(problem, node)
    elif isinstance(node, yaml.MappingNode):
        for pair in node.value:
            for part in pair:
                require_short_numbers(part)
    elif isinstance(node, yaml.SequenceNode):
        for part in node.value:
            require_short_numbers(part)


def refused(problem: str, event: yaml.Event | yaml.Node) -> yaml.MarkedYAMLError:
    """Return the error with the place of ``problem``."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=cast("yaml.Mark", event.start_mark))
