"""Default limits of a batch: the amount that a small machine handles in about a minute.

However long a batch takes, only a hanging one ends a driver's life. But a stop waits for the running batch, and after a
kill the batch runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.source import Source

MIB: Final = 1024 * 1024
COMPRESSED_BYTES: Final = 128 * MIB
"""Limit for Parquet: some 5 to 10 million events."""
TEXT_BYTES: Final = 1024 * MIB
"""Limit for JSON, CSV or text: some 5 million events."""
RECORDS: Final = 5_000_000
"""Limit for Kafka, over all partitions."""

_LIMITS: Final = frozenset({"maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger"})


def batch_limits(source: Source) -> dict[str, str]:
    """Return the reader's options that limit a batch, none if ``source.options`` have a limit of their own.

    A file source takes one limit only, and always at least one file, because a file is never split over batches.
    """
    if source.format == "socket" or _LIMITS & {option.lower() for option in source.options}:
        return {}
    match source.format:
        case "kafka":
            return {"maxOffsetsPerTrigger": str(RECORDS)}
        case "delta":
            return {"maxBytesPerTrigger": str(COMPRESSED_BYTES)}
        case "files":
            return {"maxBytesPerTrigger": str(COMPRESSED_BYTES if source.encoding == "parquet" else TEXT_BYTES)}
