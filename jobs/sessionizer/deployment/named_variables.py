"""Environment variables that a driver may need: by its spec's file, and by the spec that it runs by."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sessionizer.errors import SessionizerError
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.stream_spec.loading.folder import find_stream

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.stream_home import StreamHome


def named_variables(home: StreamHome, streams: Path) -> frozenset[str]:
    """Return the names of the variables.

    Never raises: an unreadable spec names none, and its user reports the error.
    """
    named: set[str] = set()
    with suppress(SessionizerError):
        source = find_stream(streams, home.name).source
        if source.format == "kafka":
            named.update(source.options_from_environment.values())
    with suppress(SessionizerError):
        lineage = active_lineage(home)
        record = SPEC_FILE.of(home, lineage).require() if lineage else None
        kept = record.document.get("source", {}) if record else {}
        named.update(map(str, (kept.get("options_from_environment") or {}).values()))
    return frozenset(named)
