"""Errors that keep a driver or a command from using, saving, moving or proving the state of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sessionizer.counts import count_text
from sessionizer.errors.tree import RetryEffect, TerminalError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterable


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


class NotAccepted(TerminalError):
    """``verb`` of ``stream`` would take the differences ``names``, which a user has not accepted by name."""

    exit_code = 64
    title = "a difference must be accepted by name"
    remedy = (
        "read the plan (`sessionizer upgrade …`), then declare a migration or accept each named difference. Nothing "
        "was changed"
    )

    def __init__(self, stream: str, verb: str, names: Iterable[str]) -> None:
        self.stream, self.verb, self.names = stream, verb, tuple(names)
        options = " ".join(f"--accept {name}" for name in self.names)
        super().__init__(f"the {verb} of stream {stream!r} needs each of these accepted by name: {options}")


class OperationPending(TerminalError):
    """``verb`` of ``stream`` (to ``savepoint``, if any) was begun and came to ``step``: nothing else may start.

    If it ``is_past_return`` it cannot be given up.
    """

    exit_code = 30
    title = "an operation is not finished"
    of_any_lineage = True
    remedy = (
        "run the command that `sessionizer status` shows: it resumes where it was. Or give it up with `sessionizer "
        "abandon …`, unless it has changed tables or lineage"
    )

    def __init__(self, stream: str, verb: str, savepoint: str, step: str, *, is_past_return: bool = False) -> None:
        self.stream, self.verb, self.savepoint, self.step = stream, verb, savepoint, step
        self.is_past_return = is_past_return
        to = f" to {savepoint}" if savepoint else ""
        super().__init__(f"the {verb} of stream {stream!r}{to} is not finished: its last step is '{step}'")

    def advise(self) -> str:
        """Return how to resume it, and how to give it up if that is possible."""
        given_up = "" if self.is_past_return else f". Or give it up with `sessionizer abandon {self.stream}`"
        return f"run the command that `sessionizer status` shows: it resumes where it was{given_up}"


class StreamChanged(TerminalError):
    """A command has moved ``stream`` from lineage ``was`` to lineage ``now`` while its state was read."""

    exit_code = 69
    title = "a command changed the stream meanwhile"
    remedy = "run the same command again: it reads the new lineage. Nothing was changed"

    def __init__(self, stream: str, was: str, now: str) -> None:
        self.stream, self.was, self.now = stream, was, now
        super().__init__(f"a command moved stream {stream!r} from lineage {was} to {now} meanwhile")


class OperationPastReturn(TerminalError):
    """The operation ``verb`` of ``stream`` has reached ``step``. It can only be completed, by ``command``."""

    exit_code = 43
    title = "the operation can only be completed"
    remedy = "run the command that `sessionizer status` shows: it resumes where it was"

    def __init__(self, stream: str, verb: str, step: str, command: str) -> None:
        self.stream, self.verb, self.step, self.command = stream, verb, step, command
        why = f"because it has begun to change tables or lineage (its last step is '{step}')"
        super().__init__(f"the {verb} of stream {stream!r} cannot be abandoned, {why}")

    def advise(self) -> str:
        """Return the command that resumes it."""
        return f"run `{self.command}`: it resumes where it was"


class PlanChanged(TerminalError):
    """The plan for ``stream`` now has the digest ``now``, not ``approved``.

    ``differences``: the decided fields that differ, with both values. Empty if the approved plan was not kept.
    """

    title = "the plan has changed"
    remedy = "run the same command without --approve, then read its plan and approve that one"

    def __init__(self, stream: str, approved: str, now: str, differences: Iterable[str] = ()) -> None:
        self.stream, self.approved, self.now, self.differences = stream, approved, now, tuple(differences)
        changed = f". What has changed: {', '.join(self.differences)}" if self.differences else ""
        super().__init__(
            f"the plan for stream {stream!r} has changed: its digest is {now}, but {approved} was approved{changed}"
        )


class StreamMovedOn(TerminalError):
    """``stream`` is no longer as it was when the plan of ``digest`` was made: ``cause``. Nothing was changed."""

    exit_code = 42
    title = "the stream has changed since the plan"
    remedy = "run the same command without --approve, then read its plan and approve that one. Nothing was changed"

    def __init__(self, stream: str, digest: str, cause: str) -> None:
        self.stream, self.digest, self.cause = stream, digest, cause
        super().__init__(f"stream {stream!r} has changed since plan {digest} was made: {cause}")


class StreamRunsAgain(TerminalError):
    """Driver ``uid`` of ``stream`` was started after the stop that a savepoint asked for, so it reads on."""

    exit_code = 44
    title = "the stream was started again"
    remedy = (
        "keep the stream stopped (in Airflow: run its stop), then make the savepoint again. A savepoint that was made "
        "is complete, but the stream has read on since"
    )

    def __init__(self, stream: str, uid: str) -> None:
        self.stream, self.uid = stream, uid
        super().__init__(f"stream {stream!r} was stopped for the savepoint, but driver {uid} has been started since")


class NothingToSave(TerminalError):
    """The ``stream`` has no batch that a savepoint could be made of: ``cause``."""

    title = "there is nothing to save"
    remedy = (
        "run the stream until it has committed a batch: `sessionizer run …`. "
        "`sessionizer state timeline …` lists the batches that are kept"
    )

    def __init__(self, stream: str, cause: str) -> None:
        self.stream, self.cause = stream, cause
        super().__init__(f"stream {stream!r} has nothing to save: {cause}")


class UnknownSavepoint(TerminalError):
    """No savepoint has the id ``savepoint``, or is from ``until`` or before. ``known`` are the existing ones."""

    exit_code = 12
    title = "there is no such savepoint"
    remedy = "choose a savepoint that `sessionizer savepoint list …` shows. Use `--in` for another folder"

    def __init__(self, savepoint: str, known: Iterable[str], until: str | None = None) -> None:
        self.savepoint, self.known = savepoint, tuple(known)
        wanted = f"has the id {savepoint!r}" if until is None else f"is from {until} or before"
        super().__init__(f"no savepoint {wanted}. Known savepoints: {', '.join(self.known) or 'none'}")


class UnusableSavepoint(TerminalError):
    """The ``savepoint`` cannot start a stream: ``cause``."""

    exit_code = 17
    title = "the savepoint cannot be used"
    remedy = (
        "use another complete savepoint (`sessionizer savepoint list …`), or make a new one (`sessionizer savepoint "
        "create …`)"
    )

    def __init__(self, savepoint: str, cause: str) -> None:
        self.savepoint, self.cause = savepoint, cause
        super().__init__(f"savepoint {savepoint} cannot be used: {cause}")


class MigrationRefused(TerminalError):
    """The ``migration`` of ``stream`` cannot be applied: ``cause``. ``to_do`` says what to do, in the imperative."""

    exit_code = 62
    title = "a migration of open events cannot be applied"
    remedy = "run `sessionizer migration list …` to see which are applied. Nothing was changed"

    def __init__(self, stream: str, migration: str, cause: str, to_do: str) -> None:
        self.stream, self.migration, self.cause, self.to_do = stream, migration, cause, to_do
        super().__init__(f"migration {migration!r} of stream {stream!r} cannot be applied: {cause}. {to_do}")


class NothingToProve(TerminalError):
    """No recorded batch of ``stream`` can be replayed: ``cause``. Nothing was changed."""

    title = "no batch can be replayed"
    remedy = "let the stream run some more batches, keep their events in the source, then prove again"

    def __init__(self, stream: str, cause: str) -> None:
        self.stream, self.cause = stream, cause
        super().__init__(f"no batches of stream {stream!r} can be replayed: {cause}")


class ReplayDiffers(TerminalError):
    """A replay of ``stream`` by this release and spec is not what its tables hold: ``difference``.

    ``names``: those by which a user can accept it in an upgrade.
    """

    exit_code = 63
    title = "a replay gives other rows"
    remedy = (
        "read the differences in the report. Correct the release or the spec before you use it. Nothing was "
        "changed. An upgrade takes the unexplained rows of a table with --accept proof.TABLE"
    )

    def __init__(self, stream: str, difference: str, names: tuple[str, ...] = ()) -> None:
        self.stream, self.difference, self.names = stream, difference, names
        super().__init__(f"a replay of {stream!r} by this release and spec differs from its tables: {difference}")
