"""YAML text to plain data, with the line of every key and without its silent surprises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.document.section import Verbatim
from sessionizer.stream_spec.loading.yaml_bounds import require_bounds, require_short_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
        # a date such as 2026-99-99 is a ValueError
        except (yaml.YAMLError, ValueError) as error:
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
    line = mark.line + 1 if mark else None
    broken = Verbatim(f"broken ({problem})")
    if "mapping values are not allowed" in problem:
        allowed = "Put the value in quotes, or on the line below `>-`, because a colon before a space begins a block"
        return InvalidSpec("the YAML", broken, allowed, file=file, line=line)
    return InvalidSpec("the YAML", broken, "well-formed YAML", file=file, line=line)
