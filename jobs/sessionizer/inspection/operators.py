"""Stateful operators of a checkpoint by their descriptions, and the kind of source that wrote an offset."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sessionizer.inspection.logs import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES: Final = "files"
"""Kind of a source that lists files."""
_IN_WORDS: Final = {
    "stateStoreSave": "aggregation",
    "sessionWindowStateStoreSaveExec": "session window",
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication within the watermark",
    "symmetricHashJoin": "stream-stream join",
    "globalLimit": "limit",
    "transformWithStateExec": "transformWithState",
    "transformWithStateInPandasExec": "transformWithState in Python (pandas)",
    "transformWithStateInPySparkExec": "transformWithState in Python",
    "flatMapGroupsWithState": "flatMapGroupsWithState",
    "applyInPandasWithState": "applyInPandasWithState",
}
_OF_ONE_PARTITION: Final = "globalLimit"
"""Operator of a single partition. Its description counts the partitions of a shuffle that it does not have."""


@dataclass(frozen=True, slots=True)
class Store:
    """Store of an operator. ``schema_files``: places of its schema, relative to the operator's folder."""

    name: str
    partitions: int
    schema_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operator:
    """Stateful operator. ``name`` is Spark's. ``properties``: the rest of its description (variables, time mode)."""

    number: int
    name: str
    stores: tuple[Store, ...]
    properties: Mapping[str, Any]

    @property
    def common_name(self) -> str:
        """Common name of the operator."""
        return _IN_WORDS.get(self.name, self.name)

    @property
    def partitions(self) -> int:
        """Number of partitions of its state."""
        return 1 if self.name == _OF_ONE_PARTITION else max((store.partitions for store in self.stores), default=0)


_MOST_PARTITIONS: Final = 100_000
"""Most partitions that any state may have. A number in a damaged file may be of any size."""


def operator_of(content: bytes) -> Operator:
    """Parse the operator that ``_metadata/metadata`` or ``_metadata/v2/N`` describes. Raises ValueError."""
    version, _, told = text_of(content).partition("\n")
    if version not in {"v1", "v2"}:
        message = "it is empty" if not content else f"its version is {version[:20]!r}, and known are v1 and v2"
        raise ValueError(message)
    try:
        value = json.loads(told)
        about = value["operatorInfo"]
        stores = tuple(_store(store) for store in value["stateStoreInfo"])
        properties = json.loads(value.get("operatorPropertiesJson") or "{}")
        return Operator(int(about["operatorId"]), str(about["operatorName"]), stores, properties)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        message = "it is no description of an operator: cut, or changed"
        raise ValueError(message) from None


def _store(value: Mapping[str, Any]) -> Store:
    paths = (path.rpartition("/_stateSchema/")[2] for path in value.get("stateSchemaFilePaths") or ())
    partitions = int(value["numPartitions"])
    if partitions > _MOST_PARTITIONS:
        message = f"a state of {partitions} partitions"
        raise ValueError(message)
    return Store(str(value["storeName"]), partitions, tuple(f"_stateSchema/{path}" for path in paths))


def source_kind(end: Any) -> str:  # noqa: ANN401  JSON
    """Return the kind of source that writes such an offset."""
    if end is None:
        return "not read yet"
    if not isinstance(end, dict):
        return "rate, socket or memory"
    if set(end) == {"logOffset"}:
        return FILES
    if "reservoirId" in end or "reservoirVersion" in end:
        return "Delta"
    if end and all(isinstance(of_topic, dict) for of_topic in end.values()):
        return "Kafka"
    return "another source"
