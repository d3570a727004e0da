"""Whether two specs give the same sessions."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sessionizer.spec.stream import StreamSpec

WITHOUT_EFFECT: Final = {"description", "owner", "trigger_interval_ms"}
"""Fields that change who reads the result and when it comes, never what it is."""


def spec_fingerprint(spec: StreamSpec) -> str:
    """Return the SHA-256 (64 hex digits) of what decides the result of ``spec``.

    The order of keys does not count, nor whether a default was written out.
    """
    decisive = spec.model_dump(mode="json", exclude=WITHOUT_EFFECT)
    canonical = json.dumps(decisive, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()
