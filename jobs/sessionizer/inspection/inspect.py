"""Inspection of a checkpoint for users: its kind, progress and damage. A query may run on it meanwhile."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sessionizer.checkpoint.files import Files, read_consistently
from sessionizer.checkpoint.log_entries import COMMITS, METADATA, OFFSETS, STATE, source_kind
from sessionizer.home.roots import DataPath
from sessionizer.inspection.checkpoint_read import Checkpoint, read_checkpoint
from sessionizer.inspection.damages import CheckpointDamage, damages

_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ENCODING: Final = "spark.sql.streaming.stateStore.encodingFormat"
_PROVIDERS: Final = {"RocksDBStateStoreProvider": "RocksDB", "HDFSBackedStateStoreProvider": "files and memory"}


@dataclass(frozen=True, slots=True)
class Inspection:
    """Contents of a checkpoint, and its damage."""

    checkpoint: Checkpoint
    findings: tuple[CheckpointDamage, ...]

    @property
    def harmful(self) -> int:
        """Number of findings that keep a query from starting, or make it wrong."""
        return sum(finding.effect.is_harmful for finding in self.findings)

    @property
    def settings(self) -> Mapping[str, str]:
        """Spark's settings that are pinned, as of the newest batch."""
        newest = self.checkpoint.newest
        return newest.settings if newest else {}

    @property
    def provider(self) -> str | None:
        """Name of the provider that keeps the state."""
        name = self.settings.get(_PROVIDER, "").rpartition(".")[2]
        return _PROVIDERS.get(name, name) or None

    @property
    def encoding(self) -> str | None:
        """Encoding of a row of the state."""
        return self.settings.get(_ENCODING)

    def bytes_of(self, operator: int) -> int:
        """Return the bytes of all files of an operator's state, of every version."""
        files = self.checkpoint.files
        return sum(files.sizes[name] for name in files.list_below(f"{STATE}/{operator}"))

    def versions_of(self, operator: int) -> tuple[int, int] | None:
        """Return the oldest and the newest batch after which there is a file of an operator's state."""
        stores = self.checkpoint.stores.items()
        found = [file.version - 1 for place, there in stores if place.operator == operator for file in there]
        return (min(found), max(found)) if found else None

    def to_json(self) -> dict[str, Any]:
        """Return the whole inspection as JSON."""
        read, newest = self.checkpoint, self.checkpoint.newest
        commit = read.commits.get(-1 if read.committed is None else read.committed)
        return {
            "location": read.files.location,
            "query_id": read.query_id,
            "batches": {"first": min(read.files.numbered(OFFSETS), default=None), "begun": read.begun},
            "committed": {"first": min(read.files.numbered(COMMITS), default=None), "last": read.committed},
            "batch_at": newest.at_ms if newest else None,
            "watermark_ms": newest.watermark_ms if newest else None,
            "next_watermark_ms": commit.next_watermark_ms if commit else None,
            "formats": {
                "offsets": newest.version if newest else None,
                "commits": commit.version if commit else None,
                "state": read.state_format,
                "provider": self.provider,
                "encoding": self.encoding,
            },
            "sources": [
                {"source": name, "kind": source_kind(end), "end": end}
                for name, end in (newest.ends if newest else {}).items()
            ],
            "operators": [
                {
                    "operator": operator.number,
                    "name": operator.name,
                    "kind": operator.common_name,
                    "partitions": operator.partitions,
                    "stores": [store.name for store in operator.stores],
                    "bytes": self.bytes_of(operator.number),
                    "batches": self.versions_of(operator.number),
                    "properties": dict(operator.properties),
                }
                for operator in read.operators.values()
            ],
            "settings": dict(self.settings),
            "findings": [
                {
                    "file": each.file,
                    "wrong": each.wrong,
                    "effect": each.effect.name,
                    "follows": each.follows,
                    "remedy": each.remedy,
                    "steps": [str(step) for step in each.steps],
                }
                for each in self.findings
            ],
        }


def inspect(checkpoint: DataPath, *, deep: bool = False) -> Inspection | None:
    """Read a checkpoint, or ``deep`` all files of its state. None if the folder is none. Raises OSError."""

    def read(files: Files) -> Inspection | None:
        if not any(name == METADATA or name.startswith((f"{OFFSETS}/", f"{COMMITS}/")) for name in files.sizes):
            return None
        found = read_checkpoint(files, deep=deep)
        return Inspection(found, tuple(damages(found)))

    return read_consistently(checkpoint, read)
