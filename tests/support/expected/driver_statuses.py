"""The status of a driver, from its state and a few moments."""

import logging
from pathlib import Path
from typing import Any, Final

from sessionizer.control.records.driver_records import HEARTBEAT_FILE, Heartbeat, Phase
from sessionizer.control.records.process_records import LaunchRecord, read_launch
from sessionizer.control.records.supervision_records import SUPERVISION_FILE, Health, PauseRecord, SupervisionRecord
from sessionizer.control.status.driver_status import DriverStatus, State
from sessionizer.fleet.stream_view import StreamView
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import DrainRecord
from sessionizer.stream_spec.document.stream import StreamSpec
from support.places import known

UID = "abc123"


def driver_status(
    state: State,
    now: int,
    *,
    launched_ms: int,
    heard_ms: int,
    present: bool | None = None,
    batch_id: int | None = None,
    **more: Any,
) -> DriverStatus:
    """A driver that was launched then and heard of last then. A machine that we see ran it."""
    beat = Heartbeat(UID, heard_ms, launched_ms, Phase.RUNNING, batch_id=batch_id, lineage=more.pop("lineage", None))
    return DriverStatus(
        uid=UID,
        at=now,
        state=state,
        launch=LaunchRecord(uid=UID, at=launched_ms, log=more.get("log") or ""),
        alive=state.is_live if present is None else present,
        heartbeat=beat,
        **more,
    )


def recorded(home: StreamHome) -> SupervisionRecord:
    return SUPERVISION_FILE.of(home).read() or SupervisionRecord()


def launched(home: StreamHome) -> LaunchRecord:
    return known(read_launch(home))


def works(home: StreamHome, uid: str | None = None) -> bool:
    """Whether the driver has a batch: that of `uid`, or the one that was launched last."""
    beat, launch = HEARTBEAT_FILE.of(home).read(), read_launch(home)
    wanted = uid or (launch and launch.uid)
    return beat is not None and beat.uid == wanted and beat.batch_id is not None


class Heard(list[str]):
    """The lines, and in `levels` how loud each was said."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []

    def __call__(self, line: str, level: int = logging.INFO) -> None:
        self.append(line)
        self.levels.append(level)

    def at(self, level: int) -> list[str]:
        return [line for line, its in zip(self, self.levels, strict=True) if its == level]


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
