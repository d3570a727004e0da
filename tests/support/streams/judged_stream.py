"""A stream with given facts, for the judge. It has no files."""

from pathlib import Path
from typing import Any, Final

from sessionizer.control.records.supervision_records import Health, PauseRecord
from sessionizer.control.status.driver_status import DriverStatus
from sessionizer.fleet.stream_view import StreamView
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import DrainRecord
from sessionizer.stream_spec.document.stream import StreamSpec

HOME: Final = Path("/platform")
SPEC: Final = {
    "source": {
        "format": "files",
        "path": "in",
        "encoding": "json",
        "columns": "u string, at timestamp, id string",
    },
    "mapping": {"key": "u", "event_time": "at", "event_id": "id"},
}


def judged_stream(
    seen: DriverStatus | None,
    now: int,
    *,
    name: str = "visits",
    paused: bool = False,
    taken: str = "",
    looked_at: int | None = None,
    worked_at: int | None = None,
    is_drained: bool = False,
    draining_since: int | None = None,
    spec: dict[str, Any] | None = None,
    **more: Any,
) -> StreamView:
    """Return the stream at `now`. `more` are fields of its view, `spec` sections of its spec."""
    is_known = looked_at is not None or worked_at is not None
    drain = DrainRecord(draining_since or now, now if is_drained else None) if is_drained or draining_since else None
    return StreamView(
        name=name,
        now=now,
        home=StreamHome.of(HOME, name),
        driver=seen,
        noted=PauseRecord(paused=paused, at=now, taken=taken),
        looks=Health(worked_at=worked_at or now, looked_at=looked_at) if is_known else None,
        drain=drain,
        spec=None if spec is None else StreamSpec.model_validate({"name": name, **SPEC, **spec}),
        **more,
    )
