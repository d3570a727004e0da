"""Draft of a migration, from the difference between the spec that a stream runs by and its file: pure.

It is a proposal to edit: nobody but the user knows what a new column is computed from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.stream_spec.decisions import Document


def draft_migration(name: str, before: Document, now: Document) -> str:
    """Return a block for the list ``migrations`` as YAML text.

    A new payload column takes the value of a dropped one with the same SQL. Any other new column, the key and the
    client take their new SQL where it uses only columns that open events have, which the user must check.
    """
    was, is_ = before["mapping"], now["mapping"]
    block: dict[str, Any] = {"id": name}
    columns = _columns(was["payload"], is_["payload"])
    for field in ("key", "client"):
        if was[field] != is_[field] and is_[field] is not None:
            block[field] = f"coalesce({is_[field]}, {field})"
    if columns:
        block["columns"] = columns
    if dropped := [column for column in was["payload"] if column not in is_["payload"]]:
        block["drop"] = dropped
    if len(block) == 1:
        block["where"] = "true"
    return yaml.safe_dump({"migrations": [block]}, sort_keys=False, width=120)


def _columns(was: Mapping[str, str], is_: Mapping[str, str]) -> dict[str, str]:
    """Return the SQL of each column that is new or computed otherwise."""
    named = {sql: column for column, sql in was.items() if column not in is_}
    return {column: named.get(sql, sql) for column, sql in is_.items() if was.get(column) != sql}
