"""How much one batch may bring unless the spec says otherwise: what a small machine does in about a minute.

A batch ends a driver's life only if it hangs, however long it takes; but what is stopped or killed within one waits for
it, or does it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.source import Source

MIB: Final = 1024 * 1024
COMPRESSED_BYTES: Final = 128 * MIB
"""Of Parquet: some 5 to 10 million events."""
TEXT_BYTES: Final = 1024 * MIB
"""Of JSON, CSV or text: some 5 million events."""
RECORDS: Final = 5_000_000
"""Of Kafka, over all partitions."""

_LIMITS: Final = frozenset({"maxfilespertrigger", "maxbytespertrigger", "maxoffsetspertrigger"})


def batch_limits(source: Source) -> dict[str, str]:
    """Options of the stream's reader that limit a batch; none where ``source.options`` have a limit of their own.

    A file source takes one limit only, and always at least one file: a file is never split over batches.
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
