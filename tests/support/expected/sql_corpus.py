"""Expressions of specs with the expected verdict: from documents, examples, tests, and attempts to deceive."""

import json
from typing import Any, Final

from support.places import REPOSITORY

_CORPUS: Final[dict[str, Any]] = json.loads((REPOSITORY / "tests" / "golden" / "sql_corpus.json").read_text("utf-8"))
COLUMNS: Final[dict[str, str]] = _CORPUS["columns"]
"""The columns that the expressions are over, with their types."""
ACCEPTED: Final[tuple[str, ...]] = tuple(_CORPUS["accepted"])
"""Accepted by the guard, and resolved by Spark. ``a1`` is a column that tests add."""
MEASURES: Final[tuple[str, ...]] = tuple(_CORPUS["measures"])
"""Accepted by the guard as measures, and resolved by Spark."""
REFUSED: Final[dict[str, str]] = _CORPUS["refused"]
"""Refused by the guard, each with a part of the reason."""
REFUSED_MEASURES: Final[dict[str, str]] = _CORPUS["refused_measures"]
"""Refused by the guard as measures, each with a part of the reason."""
FRAGMENTS: Final[tuple[str, ...]] = tuple(_CORPUS["fragments"])
"""Pieces of which random expressions are made."""
