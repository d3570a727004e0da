"""Drivers that run though their stream has no spec any more: it was renamed, or removed from the folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessionizer.control.status.observe import read_observation
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome, stream_homes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from sessionizer.control.status.observation import Observation


@dataclass(frozen=True, slots=True)
class Orphan:
    """Driver ``seen.uid`` of stream ``name``, which no spec describes."""

    name: str
    seen: Observation

    @property
    def stop_command(self) -> str:
        """What ends it, at a batch boundary."""
        return f"sessionizer stop {self.name}"

    @property
    def line(self) -> str:
        """What is the matter and what to do, for people."""
        lease = self.seen.lease
        process = f" (pid {lease.pid} on {lease.host})" if lease else ""
        return (
            f"driver {self.seen.uid}{process} of stream {self.name} runs, but no spec describes it (renamed or "
            f"removed?): `{self.stop_command}` ends it, or put the spec back"
        )


def orphans_among(observed: Iterable[tuple[str, Observation]], specified: Collection[str]) -> list[Orphan]:
    """Those of the ``observed`` streams that are live and whose name is not among the ``specified`` ones."""
    return [Orphan(name, seen) for name, seen in observed if seen.state.is_live and name not in specified]


def find_orphans(platform_home: Path, specified: Collection[str]) -> list[Orphan]:
    """As ``orphans_among``, over all homes of the platform. Raises ControlUnreachable."""
    strangers = [home for home in stream_homes(platform_home) if home.name not in specified]
    return orphans_among(((home.name, read_observation(home, epoch_ms())) for home in strangers), specified)


def find_orphan(platform_home: Path, name: str) -> Orphan | None:
    """The driver of stream ``name``, which has no spec, if it lives. Raises InvalidSpec, ControlUnreachable."""
    home = StreamHome.of(platform_home, name)
    return next(iter(orphans_among([(name, read_observation(home, epoch_ms()))], ())), None)
