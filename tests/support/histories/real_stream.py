"""A real stream, in the Spark of the tests, to which any order of commands is given: its tables must come out exact.

Each file has one session of each of ``USERS`` users, which the next file ends, and one line that is no event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import sessionizer
from sessionizer.control.execution import StepRunner
from sessionizer.control.lease import Lease, read_lease
from sessionizer.control.operation import new_operation
from sessionizer.control.records.erasure_record import read_erasures
from sessionizer.control.records.operation_record import OperationRecord, pending_operation
from sessionizer.control.records.process_records import EXIT_FILE, ExitOutcome, ExitRecord, write_exit
from sessionizer.erasing.records import find_left
from sessionizer.errors import (
    HalfWrittenBatch,
    InvalidSpec,
    MigrationRefused,
    NothingToSave,
    NoWayBack,
    PlanChanged,
    RowsGone,
)
from sessionizer.home.clock import epoch_ms
from sessionizer.home.data_files import list_names
from sessionizer.home.home_identity import owner_name
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage import fingerprint
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.spark.internals.delta_append import write_once
from sessionizer.spark.sinks import write
from sessionizer.spark.sinks.compaction import compact_table, plan_tables
from sessionizer.spark.sinks.examine import half_written_batch
from sessionizer.spark.sinks.tables import claim_tables
from sessionizer.spark.state.commands.erasures import EraseRunner
from sessionizer.spark.state.commands.moves import ApplyRunner, RescaleRunner
from sessionizer.spark.state.commands.restores import RestoreRunner, RollbackRunner
from sessionizer.spark.state.savepoints.saved_state import make_savepoint
from sessionizer.state.commands.command import Plan
from sessionizer.state.commands.erasures import Erase
from sessionizer.state.commands.moves import Rescale
from sessionizer.state.commands.restores import Restore, RestorePlan, Rollback
from sessionizer.state.commands.seeds import SOURCE
from sessionizer.state.commands.upgrades import Apply, Upgrade
from sessionizer.state.compaction.plan import plan_compaction
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.state.savepoints.listing import complete_savepoint, list_savepoints
from sessionizer.state.savepoints.savepoint_writer import SavepointRequest, make_native_savepoint
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from support.expected.landed import table_rows
from support.histories.typed_stream import EVENTS, SPEC, USERS, write_session_file
from support.places import known, opened
from support.processes.in_process import catch_up, drain
from support.streams.stage import Stage
from support.verbs.begun_restore import run_here, run_planned
from support.verbs.reseeded_stream import reader_of, seed
from support.verbs.scripted_runner import Killed


@dataclass(kw_only=True)
class BesideADriver(ApplyRunner):
    """Runner beside a driver, which reads on by ``meanwhile`` while a new lineage is prepared."""

    meanwhile: Callable[[], None]

    @contextmanager
    def prepared(self, record: OperationRecord) -> Iterator[None]:
        with super().prepared(record):
            if self.command.prepares:
                self.meanwhile()
            yield


REFUSALS: Final = (NothingToSave, NoWayBack, RowsGone, HalfWrittenBatch, MigrationRefused)


@dataclass(slots=True)
class RealStream:
    """A stream with ``files`` brought so far, and the ids of its savepoints in ``saved``."""

    spark: SparkSession
    stage: Stage
    monkeypatch: pytest.MonkeyPatch
    files: int = 0
    saved: list[str] = field(default_factory=list)
    sinks: list[str | None] = field(default_factory=lambda: [None])
    upgrading: Upgrade = field(default_factory=Upgrade)
    restoring: Restore = field(default_factory=lambda: Restore(canary=0))
    erasing: str = ""
    """The user whom an erasure that was begun is to erase."""
    erased: set[str] = field(default_factory=set)

    @classmethod
    def at(cls, spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch) -> RealStream:
        return cls(spark, Stage.begun(root, SPEC), monkeypatch)

    @property
    def home(self) -> StreamHome:
        return self.stage.stream_home

    def feed(self, files: int) -> None:
        for number in range(self.files, self.files + files):
            write_session_file(self.stage.feed, number)
        self.files += files

    def run(self) -> None:
        catch_up(self.spark, self.stage)

    def crash(self, after: int) -> None:
        """Bring a file, and have the driver die in its batch just after so many writes."""
        self.feed(1)
        writes, real = [0], write_once

        def die(*arguments: Any, **named: Any) -> int | None:
            version = real(*arguments, **named) if after else None
            writes[0] += 1
            if writes[0] >= after:
                raise OSError("killed")
            return version

        with self.monkeypatch.context() as patch, suppress(StreamingQueryException):
            patch.setattr(write, "write_once", die)
            self.run()

    def save(self, name: str | None = None, *, native: bool = False) -> None:
        asked = SavepointRequest(self.home.savepoints, "tests", name or f"s{len(self.saved)}")
        committed = read_committed_batch(self.home)
        if native:
            saved = make_native_savepoint(self.home, committed, asked, lambda _: None)
        else:
            saved = make_savepoint(self.spark, self.home, committed, asked, lambda _: None)
        self.saved.append(saved.id)

    def compact(self) -> None:
        made = plan_compaction(self.home, self.stage.spec(), [], epoch_ms())
        for table in plan_tables(self.spark, made.tables, made.retention):
            if table.skipped is None:
                compact_table(self.spark, table, made.retention)

    def install(self, release: str) -> None:
        self.monkeypatch.setattr(sessionizer, "__version__", release)
        self.monkeypatch.setattr(fingerprint, "code_digest", lambda: f"code of {release}")
        self.monkeypatch.setattr(fingerprint, "source_digest", lambda: f"sources of {release}")

    def upgrade(
        self,
        *,
        new_lineage: bool = False,
        replay: bool = False,
        partitions: int | None = None,
        key_groups: int | None = None,
        **changes: Any,
    ) -> OperationRecord | None:
        """Go on by the file with these changes and by the installed release. None: there is nothing to do.

        ``replay``: the driver reads one more file before the stream is stopped.
        """
        self.upgrading = Upgrade(
            canary=0, new_lineage=new_lineage, replay=replay, partitions=partitions, key_groups=key_groups
        )
        self.stage.write_spec({**self.document(), **changes})
        try:
            runner = self._runner_by_file(self.upgrading)
            plan = runner.look()
            return self._typed(Upgrade.name, lambda: plan, runner) if plan.is_needed else None
        except REFUSALS:
            self._go_by_the_lineage()
            raise

    def resume_upgrade(self) -> None:
        """Go on with an upgrade that was killed. One whose file was edited after its plan is refused."""
        runner = self._runner_by_file(self.upgrading)
        try:
            with suppress(PlanChanged):
                self._typed(Upgrade.name, runner.look, runner)
        finally:
            self._go_by_the_lineage()

    def edit_after_plan(self, planned: Mapping[str, Any], edited: Mapping[str, Any]) -> None:
        """Approve a plan of the file, which is edited before it is carried out. Asserts that it is refused."""
        self.upgrading = Upgrade(canary=0)
        before = self.document()
        self.stage.write_spec({**before, **planned})
        plan, lineage = self._runner_by_file(self.upgrading).look(), self.stage.lineage
        begun = new_operation(self.home, Upgrade.name, plan.digest, "tests", plan.leaves)
        self.stage.write_spec({**before, **edited})
        with pytest.raises(PlanChanged):
            run_here(self.home, begun, self._runner_by_file(self.upgrading))
        assert (self.stage.lineage, self.document()) == (lineage, before)
        self._go_by_the_lineage()

    def _runner_by_file(self, command: Apply) -> ApplyRunner:
        spec, savepoints = self._spec_begun(), self.home.savepoints
        return BesideADriver(
            spark=self.spark, home=self.home, command=command, spec=spec, savepoints=savepoints, meanwhile=self.read_on
        )

    def _spec_begun(self) -> StreamSpec:
        """The spec of the pending operation, else that of the file."""
        begun = pending_operation(self.home)
        if begun is None or not begun.spec:
            return self.stage.spec()
        return StreamSpec.model_validate({"name": self.stage.name, **begun.spec})

    def read_on(self) -> None:
        """Read one more file, by the spec of the lineage, while the file of the stream says something else."""
        edited = self.stage.spec()
        self._go_by_the_lineage()
        self.feed(1)
        self.run()
        self.stage.write_spec(document_of(edited))

    def restore(self, savepoint: str, command: Restore | None = None, **changes: Any) -> OperationRecord:
        """Go back, or forward, to a savepoint. ``changes`` of the file count if the ``command`` reads it."""
        self.restoring = command or Restore(canary=0)
        self.stage.write_spec({**self.document(), **changes})
        try:
            return self.resume_restore(savepoint)
        except REFUSALS:
            self._go_by_the_lineage()
            raise

    def resume_restore(self, savepoint: str) -> OperationRecord:
        runner = self._restoring(savepoint)
        return self._typed(Restore.name, runner.look, runner, savepoint)

    def plan_of(self, savepoint: str) -> Plan[RestorePlan]:
        return self._restoring(savepoint).look()

    def _restoring(self, savepoint: str) -> RestoreRunner:
        kept, manifest = complete_savepoint(self.home.savepoints, savepoint, epoch_ms())
        spark, home, spec = self.spark, self.home, self._spec_begun()
        return RestoreRunner(
            spark=spark, home=home, command=self.restoring, savepoint=kept, manifest=manifest, spec=spec
        )

    def rollback(self) -> OperationRecord:
        runner = RollbackRunner(spark=self.spark, home=self.home, command=Rollback())
        return self._typed(Rollback.name, runner.look, runner)

    def rescale(self) -> OperationRecord:
        groups = 3 if self.stage.spec().key_groups == 2 else 2
        command = Rescale(key_groups=groups, partitions=2)
        runner = RescaleRunner(spark=self.spark, home=self.home, command=command, key_groups=groups)
        committed = read_committed_batch(self.home)
        return self._typed(command.name, lambda: command.plan(self.home.name, committed, groups), runner)

    def erase(self, user: str) -> None:
        """Erase a user, and sweep what the stream has written of all that were erased."""
        self.erasing, noted = user, len(read_erasures(self.home))
        home, command, folders = self.home, Erase(keys="/people"), (self.home.savepoints,)
        runner = EraseRunner(spark=self.spark, home=home, command=command, people=(user,), folders=folders)
        for folder in self._folders():  # as the start of a driver does, because later no lineage tells whose they are
            ours, lineages = owner_name(home.name, home.control_base), list_names(home.lineages)
            claim_tables(self.spark, home.streamed_locations(folder), ours, lineages)
        try:
            self._typed(Erase.name, runner.look, runner)
        finally:
            if len(read_erasures(self.home)) > noted:
                self.erased.add(user)
        runner.finish()
        self.saved = [each.id for each in list_savepoints(home.savepoints, epoch_ms()) if each.is_complete]

    def move_sink(self, folder: str | None) -> OperationRecord:
        before = self.stage.spec()
        self.stage.write_spec({**self.document(), "sink": {"path": folder}})
        runner = self._runner_by_file(Apply(canary=0))
        self.sinks.append(folder)
        assert before.sink.path != folder
        return self._typed(Apply.name, runner.look, runner)

    def start_over(self) -> OperationRecord:
        reader = reader_of(self.spark, self.stage, SOURCE, SOURCE, None)
        record = seed(self.stage, reader)
        self._go_by_the_lineage()
        return record

    @contextmanager
    def maybe_refused(self) -> Iterator[None]:
        """Take a refusal for the end of a command. A spec is refused only beside a batch that is half written."""
        try:
            with suppress(*REFUSALS):
                yield
        except InvalidSpec:
            found = self.home.streamed_locations(self.sinks[-1]).values()
            assert half_written_batch(self.spark, self.home, known(self.stage.lineage), found) is not None
            self._go_by_the_lineage()

    def session_ids(self) -> set[str]:
        return {row["session_id"] for row in self._rows(None, "sessions")}

    def end(self) -> None:
        """Read all files and close all sessions. Asserts that each session and each refusal is there once."""
        self.feed(1)
        drain(self.spark, self.stage)
        sessions = [row for folder in self._folders() for row in self._rows(folder, "sessions")]
        refused = [row for folder in self._folders() for row in self._rows(folder, "quarantine")]
        told = sorted(row["raw"].strip() for row in refused if row["reason"] != "erased")
        ids = {row["session_id"] for row in sessions}
        found = (len(sessions), len(ids), sum(row["event_count"] for row in sessions))
        users = USERS - len(self.erased)
        assert found == (users * self.files, users * self.files, users * EVENTS * self.files)
        assert told == sorted(f"no event {number}" for number in range(self.files))
        assert [*find_left(self.home, tuple(self.erased), ())] == []

    @contextmanager
    def killed_at(self, check: int, *, surely: bool = True) -> Iterator[None]:
        """Have a command die when it checks its lease for the ``check``-th time, while the block runs."""
        asked, real = [0], Lease.check

        def die(lease: Lease) -> None:
            if threading.current_thread() is threading.main_thread():
                asked[0] += 1
                if asked[0] == check:
                    raise Killed
            real(lease)

        with self.monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(Lease, "check", die)
            yield
        assert asked[0] >= check or not surely, f"it checked its lease {asked[0]} times"
        self._end_killed_command()

    def _end_killed_command(self) -> None:
        """Record the end of a command that died while it gave its lease back: this process outlives it."""
        lease = read_lease(self.home)
        uid = None if lease is None else lease.uid
        if lease and uid and lease.may_be_at_work(EXIT_FILE.of(self.home, uid).read()):
            write_exit(self.home, ExitRecord(uid, epoch_ms(), ExitOutcome.STOPPED))

    def _typed(
        self, verb: str, approve: Callable[[], Plan[Any]], runner: StepRunner, savepoint: str = ""
    ) -> OperationRecord:
        record = run_planned(self.home, verb, approve, runner, savepoint)
        self._go_by_the_lineage()
        return record

    def _go_by_the_lineage(self) -> None:
        """Have the file say what the lineage runs by: drivers of the tests read the file."""
        self.stage.write_spec(self.document())

    def document(self) -> dict[str, Any]:
        record = known(SPEC_FILE.of(self.home, known(self.stage.lineage)).require())
        return {name: value for name, value in record.document.items() if name != "name"}

    def _folders(self) -> list[str | None]:
        return list(dict.fromkeys(self.sinks))

    def _rows(self, folder: str | None, name: str) -> list[dict[str, Any]]:
        place = self.home.table(name) if folder is None else self.stage.home / folder / name
        return table_rows(place) if opened(place).exists() else []
