"""Errors that keep a driver or a command from using a lineage and its checkpoint."""

from __future__ import annotations

from sessionizer.counts import count_text
from sessionizer.errors.tree import RetryEffect, TerminalError, TransientError


class StreamDrained(TerminalError):
    """``lineage`` of ``stream`` was drained at ``batch_id``: its watermark is at the end of time, all would be late."""

    exit_code = 19
    title = "the stream was drained"
    of_any_lineage = True
    for_good = True
    remedy = (
        "do nothing if the stream is meant to be over. To run it in portions, use `--until caught-up` instead of "
        "drained. To read all events again, start over under another name, or in another home with another sink.path"
    )

    def __init__(self, stream: str, lineage: str, batch_id: int | None, at: str) -> None:
        self.stream, self.lineage, self.batch_id, self.at = stream, lineage, batch_id, at
        after = "" if batch_id is None else f" after batch {batch_id}"
        super().__init__(
            f"stream {stream!r} was drained on {at}{after}: every session is closed, and the stream is over"
        )


class UnreadableLineage(TerminalError):
    """The checkpoint of ``lineage`` cannot be resumed by a driver of ``stream``: ``cause``."""

    exit_code = 17
    title = "another release made the checkpoint"
    remedy = (
        "continue the stream with the release that made the checkpoint. Or make a canonical savepoint with that "
        "release, `sessionizer savepoint create … --stop`, and restore it here. Nothing was changed"
    )

    def __init__(self, stream: str, lineage: str, cause: str) -> None:
        self.stream, self.lineage, self.cause = stream, lineage, cause
        super().__init__(f"stream {stream!r} cannot resume its lineage {lineage}: {cause}")


class EngineChanged(TerminalError):
    """``lineage`` of ``stream`` was made by the version ``kept`` of ``program``, and ``now`` is on another line."""

    exit_code = 61
    title = "another line of Spark or Delta is installed"
    remedy = (
        "install the line that made the checkpoint, for Airflow into the folder of SESSIONIZER_RELEASES. Or carry the "
        "open sessions over: `sessionizer upgrade …` shows the steps. Nothing was changed"
    )

    def __init__(self, stream: str, lineage: str, program: str, kept: str, now: str) -> None:
        self.stream, self.lineage, self.program, self.kept, self.now = stream, lineage, program, kept, now
        super().__init__(
            f"lineage {lineage} of stream {stream!r} was made by {program} {kept}, but {program} {now} is installed"
        )


class UpgradeWaits(TransientError):
    """``lineage`` of ``stream`` runs by release ``kept``. A restart must not take ``now``, which is installed."""

    exit_code = 70
    title = "an upgrade waits"
    remedy = (
        "run `sessionizer upgrade …` and approve its plan. Or install the release of the lineage in an environment "
        "below SESSIONIZER_RELEASES. `upgrades.at_restart` of the spec says which releases a restart takes"
    )

    def __init__(self, stream: str, lineage: str, kept: str, now: str) -> None:
        self.stream, self.lineage, self.kept, self.now = stream, lineage, kept, now
        installed = f"release {now}" if now != kept else "other code of it"
        super().__init__(
            f"lineage {lineage} of stream {stream!r} runs by release {kept}, and a restart does not take {installed}, "
            "which is installed"
        )


class DataElsewhere(TerminalError):
    """``lineage`` of ``stream`` has its data at ``kept``, and ``field`` says ``now``: nothing of it is there."""

    exit_code = 17
    title = "the data root is another one"
    of_any_lineage = True
    remedy = (
        "set SESSIONIZER_DATA (or --data) to the data root of the lineage. Unset it if that is the home. Nothing was "
        "changed"
    )

    def __init__(self, stream: str, lineage: str, field: str, kept: str, now: str) -> None:
        self.stream, self.lineage, self.field, self.kept, self.now = stream, lineage, field, kept, now
        super().__init__(f"{field} is {now!r}, but lineage {lineage} of stream {stream!r} has its data at {kept!r}")


class DamagedCheckpoint(TerminalError):
    """The checkpoint at ``location`` has damaged files, of which ``count`` matter."""

    exit_code = 17
    title = "the checkpoint is damaged"
    remedy = "stop the query. Then do what each finding says, on a copy of the checkpoint first"

    def __init__(self, location: str, count: int) -> None:
        self.location, self.count = location, count
        super().__init__(f"the checkpoint at {location} is damaged: {count_text(count, 'finding')}")


class NothingToShow(TerminalError):
    """The ``stream`` has no batch that could be inspected: ``cause``."""

    title = "there is nothing to show"
    remedy = "run `sessionizer state timeline …` to list the batches that are kept. A stream that never ran has none"

    def __init__(self, stream: str, cause: str) -> None:
        self.stream, self.cause = stream, cause
        super().__init__(f"stream {stream!r} has nothing to show: {cause}")


class BatchOutrun(TransientError):
    """The stream went on so far while its batch ``batch_id`` was read that it no longer keeps all of it: ``cause``."""

    title = "the stream was faster"
    remedy = (
        "run the command again. If that happens repeatedly, stop the stream first: `sessionizer savepoint create … "
        "--stop` does both"
    )

    def __init__(self, stream: str, batch_id: int, cause: str) -> None:
        self.stream, self.batch_id, self.cause = stream, batch_id, cause
        super().__init__(f"batch {batch_id} of stream {stream!r} was removed while it was read: {cause}")


class StreamBegun(TerminalError):
    """The ``stream`` cannot begin with a history: it has ``lineage`` already, and ``--start-over`` was not given."""

    title = "the stream has begun already"
    remedy = (
        "add `--start-over`, which leaves the stream's lineage and deletes what it wrote. To keep both, use another "
        "name or home"
    )

    def __init__(self, stream: str, lineage: str) -> None:
        self.stream, self.lineage = stream, lineage
        super().__init__(f"stream {stream!r} has already begun, in lineage {lineage}")


class UnfaithfulState(TerminalError):
    """A new lineage of ``stream`` differs from the state that it was given: ``difference``. It was not activated."""

    exit_code = 17
    title = "a new lineage came out wrong"
    remedy = "resume the stream, which is unchanged. Keep the new checkpoint and this message, and report them as a bug"

    def __init__(self, stream: str, difference: str) -> None:
        self.stream, self.difference = stream, difference
        super().__init__(f"a new lineage of stream {stream!r} differs from the state it was made of: {difference}")


class NoWayBack(TerminalError):
    """The predecessor of ``lineage`` of ``stream`` cannot be resumed: ``cause``."""

    exit_code = 35
    title = "the lineage before cannot be resumed"
    remedy = (
        "restore a savepoint instead (`sessionizer savepoint list …`, `sessionizer restore … SAVEPOINT`). "
        "Nothing was changed"
    )

    def __init__(self, stream: str, lineage: str, cause: str) -> None:
        self.stream, self.lineage, self.cause = stream, lineage, cause
        super().__init__(f"stream {stream!r} cannot roll back from its lineage {lineage}: {cause}")


class LineageUnfit(TerminalError):
    """``lineage`` of ``stream`` failed its canary: ``reason``. A rollback leads to the one ``before``, if any."""

    exit_code = 36
    title = "a lineage failed its canary"
    of_any_lineage = True
    remedy = (
        "run `sessionizer rollback …` to return to the lineage before, or `sessionizer promote …` to promote this one"
    )

    def __init__(self, stream: str, lineage: str, before: str | None, reason: str) -> None:
        self.stream, self.lineage, self.before, self.reason = stream, lineage, before, reason
        super().__init__(f"lineage {lineage} of stream {stream!r} failed its canary: {reason}")

    def advise(self) -> str:
        """Return the commands that decide about the lineage."""
        promote = f"or promote this one: `sessionizer promote {self.stream}`"
        if self.before is None:
            listed = f"`sessionizer savepoint list {self.stream}`"
            return f"restore a savepoint ({listed}), because there is no lineage before, {promote}"
        return f"run `sessionizer rollback {self.stream}` to return to lineage {self.before}, {promote}"


class LineageLeft(TransientError):
    """``lineage`` of ``stream`` failed its canary: ``reason``. The next driver rolls back to the one ``before``."""

    exit_code = 37
    title = "a lineage failed its canary"
    of_any_lineage = True
    verdict = RetryEffect.UNCLEAR
    remedy = (
        "start the stream again, as a supervisor does: the next driver rolls back to the lineage before. The failed "
        "one is kept so that you can inspect it"
    )

    def __init__(self, stream: str, lineage: str, before: str, reason: str) -> None:
        self.stream, self.lineage, self.before, self.reason = stream, lineage, before, reason
        super().__init__(
            f"lineage {lineage} of stream {stream!r} failed its canary: {reason}. "
            f"The next driver rolls back to lineage {before}"
        )
