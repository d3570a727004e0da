"""Errors that keep a driver or a command from using, saving, moving or proving the state of a stream."""

from collections.abc import Collection

from sessionizer.counts import count_text
from sessionizer.errors.tree import OfStream, RetryEffect, TerminalError, TransientError


class StreamDrained(OfStream, TerminalError, exit_code=19, of_any_lineage=True, for_good=True):
    title = "the stream was drained"
    remedy = (
        "do nothing if the stream is meant to be over. To run it in portions, use `--until caught-up` instead of "
        "drained. To read all events again, start over under another name, or in another home with another sink.path"
    )
    lineage: str
    batch_id: int | None
    at: str

    def __str__(self) -> str:
        after = "" if self.batch_id is None else f" after batch {self.batch_id}"
        over = "every session is closed, and the stream is over"
        return f"stream {self.stream!r} was drained on {self.at}{after}: {over}"


class UnreadableLineage(OfStream, TerminalError, exit_code=17):
    title = "another release made the checkpoint"
    message = "stream {0.stream!r} cannot resume its lineage {0.lineage}: {0.cause}"
    remedy = (
        "continue the stream with the release that made the checkpoint. Or make a canonical savepoint with that "
        "release, `sessionizer savepoint create … --stop`, and restore it here. Nothing was changed"
    )
    lineage: str
    cause: str


class EngineChanged(OfStream, TerminalError, exit_code=61):
    title = "another line of Spark or Delta is installed"
    message = (
        "lineage {0.lineage} of stream {0.stream!r} was made by {0.program} {0.kept}, but {0.program} {0.now} is "
        "installed"
    )
    remedy = (
        "install the line that made the checkpoint, for Airflow into the folder of SESSIONIZER_RELEASES. Or carry the "
        "open sessions over: `sessionizer upgrade …` shows the steps. Nothing was changed"
    )
    lineage: str
    program: str
    kept: str
    now: str


class UpgradeWaits(OfStream, TransientError, exit_code=70):
    title = "an upgrade waits"
    remedy = (
        "run `sessionizer upgrade …` and approve its plan. Or install the release of the lineage in an environment "
        "below SESSIONIZER_RELEASES. `upgrades.at_restart` of the spec says which releases a restart takes"
    )
    lineage: str
    kept: str
    now: str

    def __str__(self) -> str:
        installed = f"release {self.now}" if self.now != self.kept else "other code of it"
        runs = f"lineage {self.lineage} of stream {self.stream!r} runs by release {self.kept}"
        return f"{runs}, and a restart does not take {installed}, which is installed"


class DataElsewhere(OfStream, TerminalError, exit_code=17, of_any_lineage=True):
    title = "the data root is another one"
    message = "{0.field} is {0.now!r}, but lineage {0.lineage} of stream {0.stream!r} has its data at {0.kept!r}"
    remedy = (
        "set SESSIONIZER_DATA (or --data) to the data root of the lineage. Unset it if that is the home. Nothing was "
        "changed"
    )
    lineage: str
    field: str
    kept: str
    now: str


class DamagedCheckpoint(TerminalError, exit_code=17):
    title = "the checkpoint is damaged"
    remedy = "stop the query. Then do what each finding says, on a copy of the checkpoint first"
    location: str
    count: int

    def __str__(self) -> str:
        return f"the checkpoint at {self.location} is damaged: {count_text(self.count, 'finding')}"


class NothingToShow(OfStream, TerminalError):
    title = "there is nothing to show"
    message = "stream {0.stream!r} has nothing to show: {0.cause}"
    remedy = "run `sessionizer state timeline …` to list the batches that are kept. A stream that never ran has none"
    cause: str


class BatchOutrun(OfStream, TransientError):
    title = "the stream was faster"
    message = "batch {0.batch_id} of stream {0.stream!r} was removed while it was read: {0.cause}"
    remedy = (
        "run the command again. If that happens repeatedly, stop the stream first: `sessionizer savepoint create … "
        "--stop` does both"
    )
    batch_id: int
    cause: str


class StreamBegun(OfStream, TerminalError):
    title = "the stream has begun already"
    message = "stream {0.stream!r} has already begun, in lineage {0.lineage}"
    remedy = (
        "add `--start-over`, which leaves the stream's lineage and deletes what it wrote. To keep both, use another "
        "name or home"
    )
    lineage: str


class UnfaithfulState(OfStream, TerminalError, exit_code=17):
    title = "a new lineage came out wrong"
    message = "a new lineage of stream {0.stream!r} differs from the state it was made of: {0.difference}"
    remedy = "resume the stream, which is unchanged. Keep the new checkpoint and this message, and report them as a bug"
    difference: str


class NoWayBack(OfStream, TerminalError, exit_code=35):
    title = "the lineage before cannot be resumed"
    message = "stream {0.stream!r} cannot roll back from its lineage {0.lineage}: {0.cause}"
    remedy = (
        "restore a savepoint instead (`sessionizer savepoint list …`, `sessionizer restore … SAVEPOINT`). "
        "Nothing was changed"
    )
    lineage: str
    cause: str


class LineageUnfit(OfStream, TerminalError, exit_code=36, of_any_lineage=True):
    title = "a lineage failed its canary"
    message = "lineage {0.lineage} of stream {0.stream!r} failed its canary: {0.reason}"
    remedy = (
        "run `sessionizer rollback …` to return to the lineage before, or `sessionizer promote …` to promote this one"
    )
    lineage: str
    before: str | None
    reason: str

    def advise(self) -> str:
        """Return the commands that decide about the lineage."""
        promote = f"or promote this one: `sessionizer promote {self.stream}`"
        if self.before is None:
            listed = f"`sessionizer savepoint list {self.stream}`"
            return f"restore a savepoint ({listed}), because there is no lineage before, {promote}"
        return f"run `sessionizer rollback {self.stream}` to return to lineage {self.before}, {promote}"


class LineageLeft(OfStream, TransientError, exit_code=37, verdict=RetryEffect.UNCLEAR, of_any_lineage=True):
    title = "a lineage failed its canary"
    message = (
        "lineage {0.lineage} of stream {0.stream!r} failed its canary: {0.reason}. The next driver rolls back to "
        "lineage {0.before}"
    )
    remedy = (
        "start the stream again, as a supervisor does: the next driver rolls back to the lineage before. The failed "
        "one is kept so that you can inspect it"
    )
    lineage: str
    before: str
    reason: str


class NotAccepted(OfStream, TerminalError, exit_code=64):
    title = "a difference must be accepted by name"
    remedy = (
        "read the plan (`sessionizer upgrade …`), then declare a migration or accept each named difference. Nothing "
        "was changed"
    )
    verb: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        options = " ".join(f"--accept {name}" for name in self.names)
        return f"the {self.verb} of stream {self.stream!r} needs each of these accepted by name: {options}"


class OperationPending(OfStream, TerminalError, exit_code=30, of_any_lineage=True):
    title = "an operation is not finished"
    remedy = (
        "run the command that `sessionizer status` shows: it resumes where it was. Or give it up with `sessionizer "
        "abandon …`, unless it has changed tables or lineage"
    )
    verb: str
    savepoint: str
    step: str
    is_past_return: bool = False

    def __str__(self) -> str:
        to = f" to {self.savepoint}" if self.savepoint else ""
        return f"the {self.verb} of stream {self.stream!r}{to} is not finished: its last step is '{self.step}'"

    def advise(self) -> str:
        """Return how to resume it, and how to give it up if that is possible."""
        given_up = "" if self.is_past_return else f". Or give it up with `sessionizer abandon {self.stream}`"
        return f"run the command that `sessionizer status` shows: it resumes where it was{given_up}"


class StreamChanged(OfStream, TerminalError, exit_code=69):
    title = "a command changed the stream meanwhile"
    message = "a command moved stream {0.stream!r} from lineage {0.was} to {0.now} meanwhile"
    remedy = "run the same command again: it reads the new lineage. Nothing was changed"
    was: str
    now: str


class OperationPastReturn(OfStream, TerminalError, exit_code=43):
    title = "the operation can only be completed"
    message = (
        "the {0.verb} of stream {0.stream!r} cannot be abandoned, because it has begun to change tables or lineage "
        "(its last step is '{0.step}')"
    )
    remedy = "run the command that `sessionizer status` shows: it resumes where it was"
    verb: str
    step: str
    command: str

    def advise(self) -> str:
        """Return the command that resumes it."""
        return f"run `{self.command}`: it resumes where it was"


class PlanChanged(OfStream, TerminalError):
    """A plan that is not the ``approved`` one.

    ``differences``: the decided fields that differ, with both values. Empty if the approved plan was not kept.
    """

    title = "the plan has changed"
    remedy = "run the same command without --approve, then read its plan and approve that one"
    approved: str
    now: str
    differences: tuple[str, ...] = ()

    def __str__(self) -> str:
        changed = f". What has changed: {', '.join(self.differences)}" if self.differences else ""
        digests = f"its digest is {self.now}, but {self.approved} was approved"
        return f"the plan for stream {self.stream!r} has changed: {digests}{changed}"


class StreamMovedOn(OfStream, TerminalError, exit_code=42):
    title = "the stream has changed since the plan"
    message = "stream {0.stream!r} has changed since plan {0.digest} was made: {0.cause}"
    remedy = "run the same command without --approve, then read its plan and approve that one. Nothing was changed"
    digest: str
    cause: str


class StreamRunsAgain(OfStream, TerminalError, exit_code=44):
    title = "the stream was started again"
    message = "stream {0.stream!r} was stopped for the savepoint, but driver {0.uid} has been started since"
    remedy = (
        "keep the stream stopped (in Airflow: run its stop), then make the savepoint again. A savepoint that was made "
        "is complete, but the stream has read on since"
    )
    uid: str


class NothingToSave(OfStream, TerminalError):
    title = "there is nothing to save"
    message = "stream {0.stream!r} has nothing to save: {0.cause}"
    remedy = (
        "run the stream until it has committed a batch: `sessionizer run …`. "
        "`sessionizer state timeline …` lists the batches that are kept"
    )
    cause: str


class UnknownSavepoint(TerminalError, exit_code=12):
    title = "there is no such savepoint"
    remedy = "choose a savepoint that `sessionizer savepoint list …` shows. Use `--in` for another folder"
    savepoint: str
    known: Collection[str]
    until: str | None = None

    def __str__(self) -> str:
        wanted = f"has the id {self.savepoint!r}" if self.until is None else f"is from {self.until} or before"
        return f"no savepoint {wanted}. Known savepoints: {', '.join(self.known) or 'none'}"


class UnusableSavepoint(TerminalError, exit_code=17):
    title = "the savepoint cannot be used"
    message = "savepoint {0.savepoint} cannot be used: {0.cause}"
    remedy = (
        "use another complete savepoint (`sessionizer savepoint list …`), or make a new one (`sessionizer savepoint "
        "create …`)"
    )
    savepoint: str
    cause: str


class MigrationRefused(OfStream, TerminalError, exit_code=62):
    """A migration that cannot be applied. ``to_do`` says what to do, in the imperative."""

    title = "a migration of open events cannot be applied"
    message = "migration {0.migration!r} of stream {0.stream!r} cannot be applied: {0.cause}. {0.to_do}"
    remedy = "run `sessionizer migration list …` to see which are applied. Nothing was changed"
    migration: str
    cause: str
    to_do: str


class NothingToProve(OfStream, TerminalError):
    title = "no batch can be replayed"
    message = "no batches of stream {0.stream!r} can be replayed: {0.cause}"
    remedy = "let the stream run some more batches, keep their events in the source, then prove again"
    cause: str


class ReplayDiffers(OfStream, TerminalError, exit_code=63):
    """A difference between a replay and the tables, which an upgrade accepts by ``names``."""

    title = "a replay gives other rows"
    message = "a replay of {0.stream!r} by this release and spec differs from its tables: {0.difference}"
    remedy = (
        "read the differences in the report. Correct the release or the spec before you use it. Nothing was "
        "changed. An upgrade takes the unexplained rows of a table with --accept proof.TABLE"
    )
    difference: str
    names: tuple[str, ...] = ()


class StillThere(OfStream, TerminalError, exit_code=71):
    title = "erased values are still in files"
    message = "stream {0.stream!r}: {0.count} of the values in {0.files} files, such as {0.file}"
    remedy = (
        "run the same `sessionizer erase …` with its plan's digest again, which sweeps what is left. A file that it "
        "leaves is not the stream's: remove it yourself"
    )
    count: int
    files: int
    file: str
