"""Damage of a state's descriptions: its operators, and the schemas of its stores.

Spark's reaction to each was seen with Spark 4.2 (tests/spark/inspection).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sessionizer.checkpoint.descriptions import OPERATOR_FILE, SCHEMA_FILE
from sessionizer.checkpoint.names import STATE
from sessionizer.inspection.finding import ELSEWHERE, GONE, CheckpointDamage, Effect, removal_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sessionizer.inspection.checkpoint_read import Checkpoint

_OPERATOR_FOLDER: Final = re.compile(rf"{STATE}/(\d+)/")


def find_damaged_descriptions(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    """Yield every damage of the descriptions."""
    yield from _operators(checkpoint)
    yield from _schemas(checkpoint)


def _operators(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    """Yield the damage of the operators' descriptions."""
    for name, wrong in checkpoint.wrong.items():
        if OPERATOR_FILE.fullmatch(name):
            yield _description(checkpoint, name, wrong)
    there = {int(match[1]) for name in checkpoint.files.sizes if (match := OPERATOR_FILE.fullmatch(name))}
    for operator in sorted(
        {int(match[1]) for name in checkpoint.files.sizes if (match := _OPERATOR_FOLDER.match(name))}
    ):
        if operator not in there:
            of_variables = any(checkpoint.files.list_below(f"{STATE}/{operator}/_stateSchema"))
            name = "v2/0" if of_variables else "metadata"
            yield _description(checkpoint, f"{STATE}/{operator}/_metadata/{name}", GONE)


def _description(checkpoint: Checkpoint, name: str, wrong: str) -> CheckpointDamage:
    if "/_metadata/v2/" in name:  # of a transformWithState: it names the files of its schema
        return CheckpointDamage(name, wrong, Effect.STOPS, "Spark cannot find the schema of the state", ELSEWHERE)
    follows = "Spark's state reader cannot read the state"
    remedy = "remove it and Hadoop's checksum of it: the query writes it again when it starts"
    return CheckpointDamage(name, wrong, Effect.PAST, follows, remedy, removal_steps(checkpoint.files, name))


def _schemas(checkpoint: Checkpoint) -> Iterator[CheckpointDamage]:
    for name, wrong in checkpoint.wrong.items():
        if SCHEMA_FILE.fullmatch(name):
            yield _schema(checkpoint, name, wrong)
    for operator in checkpoint.operators.values():
        wanted = [f"{STATE}/{operator.number}/{name}" for store in operator.stores for name in store.schema_files]
        for store in operator.stores if not wanted else ():
            folder = "" if store.name == "default" else f"{store.name}/"
            wanted.append(f"{STATE}/{operator.number}/0/{folder}_metadata/schema")
        for name in wanted:
            if name not in checkpoint.files.sizes:
                yield _schema(checkpoint, name, GONE)


def _schema(checkpoint: Checkpoint, name: str, wrong: str) -> CheckpointDamage:
    follows = "Spark cannot read the rows of the state"
    if "/_stateSchema/" in name:
        return CheckpointDamage(name, wrong, Effect.STOPS, follows, ELSEWHERE)
    remedy = (
        "remove it and Hadoop's checksum of it: the query writes it again when it starts, from its own plan. Start "
        "exactly the query that ran before, because Spark does not compare the two"
    )
    effect = Effect.PAST if wrong == GONE else Effect.STOPS
    return CheckpointDamage(name, wrong, effect, follows, remedy, removal_steps(checkpoint.files, name))
