"""One line on what is wrong with a stream and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.cli.remedies import remedy_for_end
from sessionizer.control.desired_state import DesiredState
from sessionizer.control.observation import State
from sessionizer.control.progress_line import in_words

if TYPE_CHECKING:
    from sessionizer.control.observation import Observation
    from sessionizer.control.stream_home import StreamHome


def advice_on(home: StreamHome, seen: Observation) -> str | None:
    """What to do; None where nothing is wrong."""
    if seen.damage:
        return f"damaged: {seen.damage[0]}"
    if seen.state is State.FAILED:
        return _on_failure(home.name, seen)
    if seen.state is State.STALLED:
        return _on_silence(home, seen)
    if seen.state is State.VANISHED:
        return f"its process is gone without a word (see {home.logs}); `sessionizer run {home.name}` continues"
    return _on_wish(home.name, seen)


def _on_failure(name: str, seen: Observation) -> str:
    record = seen.exit_record
    if record is None:
        return f"`sessionizer run {name}` continues"
    message = (record.message or "no message").splitlines()[0]
    return f"{record.error_type}: {message} → {remedy_for_end(name, record.error_type)}"


def _on_silence(home: StreamHome, seen: Observation) -> str:
    lease = seen.lease
    process = f"pid {lease.pid} on {lease.host}" if lease else "its process"
    silent = f"no sign for {in_words(seen.age_ms)}" if seen.age_ms is not None else "no sign yet"
    return f"{silent}: look at {home.logs}, `sessionizer stop {home.name}`, and kill {process} if it hangs"


def _on_wish(name: str, seen: Observation) -> str | None:
    """A wish that nobody ever expressed is none."""
    if seen.as_desired or not seen.desired.at or seen.state is State.DRAINING:
        return None
    if seen.desired.state is DesiredState.RUNNING:
        return f"{seen.desired.by} wants it RUNNING, but nothing drives it: `sessionizer run {name}`"
    return f"{seen.desired.by} wants it {seen.desired.state}: `sessionizer stop {name}`"
