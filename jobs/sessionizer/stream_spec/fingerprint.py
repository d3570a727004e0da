"""Whether two specs decide the same."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from sessionizer.stream_spec.decisions import decisions_of

if TYPE_CHECKING:
    from sessionizer.stream_spec.document.stream import StreamSpec


def spec_fingerprint(spec: StreamSpec) -> str:
    """Return the SHA-256 (64 hex digits) of what ``spec`` decides (``decisions_of``).

    The order of keys does not count, nor whether a default was written out, nor what is null.
    """
    decisive = {field: value for field, value in decisions_of(spec).items() if value is not None}
    canonical = json.dumps(decisive, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
