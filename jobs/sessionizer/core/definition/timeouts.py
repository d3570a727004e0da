"""Changes of per-client timeouts, as what a punctuation must say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def changed_timeouts(
    announced: Mapping[str, int], table: Mapping[str, int], inline: Mapping[str, int], default_ms: int
) -> dict[str, int]:
    """Clients whose timeout (ms) is another now; one that left the table falls back to the spec's."""
    wanted = {client: inline.get(client, default_ms) for client in announced} | dict(table)
    return {client: timeout for client, timeout in wanted.items() if announced.get(client) != timeout}
