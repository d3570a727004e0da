"""Command ``sessionizer erase``: people leave the state, then everything else that the stream has written."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from sessionizer.cli.places import require_known_stream
from sessionizer.cli.state_commands.course import CommandCourse, Shared
from sessionizer.cli.terminal import say, working_spark
from sessionizer.control.execution import StepRunner
from sessionizer.control.records.erasure_record import read_secret, read_unswept
from sessionizer.control.records.operation_record import OperationRecord
from sessionizer.counts import count_text
from sessionizer.erasing.records import find_left
from sessionizer.errors import InvalidSpec, StillThere
from sessionizer.home.clock import epoch_ms, moment_of
from sessionizer.home.data_files import is_folder, newest_version
from sessionizer.home.roots import DataPath, folder_at, root_at
from sessionizer.lineage.kept_spec import sink_folders
from sessionizer.state.commands.erasures import STANDARD_INPUT, Erase, require_people
from sessionizer.state.lineages.origin import origins_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sessionizer.spark.state.commands.erasures import EraseRunner, RequestTable


@dataclass(kw_only=True)
class EraseCourse(CommandCourse[Erase]):
    """``sessionizer erase``: erase people. The stream runs again before the tables and savepoints are swept.

    ``requests``: the table that asks for it, if there is one.
    """

    requests: RequestTable | None = field(default=None, init=False)

    def choose(self) -> None:
        """Refuse an unknown stream, and ask for the secret. A later try, in another folder, finds the same file.

        Raises UnknownStream, InvalidSpec.
        """
        self._require_asked()
        read_secret()
        for each in read_unswept(self.where):
            if each.approval != self.shared.approve:
                resume = f"sessionizer carry-out {self.where.name} {each.operation}"
                say(f"note: an erasure is not over. To resume it: `{resume}`")
        keys = str(self.command.keys)
        if keys != STANDARD_INPUT and "://" not in keys:
            keys = str(Path(keys).absolute())
        until = self.command.until or datetime.fromtimestamp(epoch_ms() / 1000, UTC).isoformat()
        self.command = replace(self.command, keys=keys, until=until)

    @classmethod
    def run(cls, command: Erase, shared: Shared, asked: OperationRecord | None = None) -> None:
        """Show the plan, carry out the approved one, or search the files. Raises StillThere."""
        if not command.verify:
            super().run(command, shared, asked)
            return
        cls(command=command, shared=shared, where=shared.home_of(shared.stream)).prove()

    def prove(self) -> None:
        """Say in which files the people are, or where values are that were to be redacted. Raises StillThere."""
        self._require_asked()
        people, left, held, unreadable = self._count_unredacted() if self.command.redacts else self._search()
        if self.shared.as_json:
            typer.echo(json.dumps({"values": people, "left": left, "files": held, "unreadable": unreadable}))
        else:
            typer.echo(f"{count_text(people, self.command.column)} looked for, {left:,} found")
            for line in (*held, *unreadable):
                typer.echo(f"  {line}")
        if held:
            raise StillThere(self.where.name, left, len(held), held[0])

    def _search(self) -> tuple[int, int, list[str], list[str]]:
        """Decode every file. Return the number of people, of those left, their files, and unreadable ones."""
        people, folder = self._people(), self._savepoints_elsewhere()
        folders = sink_folders(self.where, origins_of(self.where))
        places = (place for each in folders for place in self.where.table_locations(each).values())
        tables = [table for table in (folder_at(place, "sink.path") for place in places) if is_folder(table)]
        found = [*find_left(self.where, people, (*tables, *folder))]
        left = {value for each in found for value in each.counts}
        held = [f"{each.root}/{each.file}" for each in found if each.counts]
        unreadable = [f"{each.root}/{each.file}: {each.unreadable}" for each in found if each.unreadable]
        return len(people), len(left), held, unreadable

    def _count_unredacted(self) -> tuple[int, int, list[str], list[str]]:
        """Do the same for columns whose values no key tells: by tables, open events and savepoints, not files."""
        with self._spark() as spark:
            runner = self.make_runner(spark)
            left = runner.count_unredacted()
        return len(runner.people), sum(left.values()), [f"{place}: {n:,}" for place, n in left.items() if n], []

    def make_runner(self, spark: SparkSession) -> EraseRunner:
        """Return the runner, with the people that the file or table names. Raises InvalidSpec."""
        from sessionizer.spark.state.commands.erasures import EraseRunner  # noqa: PLC0415  fast --help

        if self._is_table():
            if self.command.redacts:
                raise InvalidSpec("--keys", self.command.keys, "a file or -, because a table asks for erasures")
            self.requests = self._request_table(spark)
            self.requests.write_done(self._until_ms)
            people = tuple(sorted(self.requests.read(self._until_ms)))
        else:
            people = self._people()
        folders = (self.where.savepoints, *self._savepoints_elsewhere())
        return EraseRunner(**self.parts(spark), people=people, folders=folders)

    def carry_out(self, runner: StepRunner) -> OperationRecord:
        """Run the plan, then sweep what the stream has written before."""
        record = super().carry_out(runner)
        self._sweep(cast("EraseRunner", runner))
        return record

    def needs_spark(self) -> bool:
        """Whether a plan is to be made or carried out. Another command may have followed an erasure that is unswept."""
        if self.pending is not None or not self._is_unswept():
            return True
        self.after_done()
        return False

    def after_done(self) -> None:
        """Sweep, if a killed try of the approved plan left that, and tell the table of requests."""
        if self._is_unswept() or self._is_table():
            with self._spark() as spark:
                self._sweep(self.make_runner(spark))

    def done(self, record: OperationRecord) -> None:
        """Name the lineage that goes on."""
        said = f"stream {self.where.name} continues without them in lineage {record.lineage_to} ({record.seconds} s)"
        typer.echo(f"{said}. To prove it: the same command with --verify in place of --approve")

    def _require_asked(self) -> None:
        require_known_stream(self.where)
        if not self.command.keys:
            raise InvalidSpec("--keys", self.command.keys, "a file with a value in each line, a Delta table, or -")

    def _people(self) -> tuple[str, ...]:
        """Return each value in the file or the standard input, or that a table says is done. Raises InvalidSpec."""
        place = str(self.command.keys)
        if self._is_table():
            with self._spark() as spark:
                return require_people(self._request_table(spark).read(epoch_ms(), are_done=True), place)
        try:
            text = sys.stdin.read() if place == STANDARD_INPUT else Path(place).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSpec("--keys", place, f"a text file that can be read ({error})") from error
        return require_people(text.splitlines(), place)

    def _request_table(self, spark: SparkSession) -> RequestTable:
        from sessionizer.spark.state.commands.erasures import find_request_table  # noqa: PLC0415  fast --help

        return find_request_table(spark, self.where, self.command)

    def _is_table(self) -> bool:
        place = str(self.command.keys)
        return place != STANDARD_INPUT and newest_version(folder_at(place, "--keys")) is not None

    def _spark(self) -> AbstractContextManager[SparkSession]:
        shared = self.shared
        return working_spark(self.command.name, self.where.name, shared.master, "starting Spark", self.where.data)

    def _savepoints_elsewhere(self) -> tuple[DataPath, ...]:
        folder = self.command.folder
        return () if folder is None else (root_at(folder, "--in") / self.where.name,)

    def _is_unswept(self) -> bool:
        return any(each.approval == self.shared.approve for each in read_unswept(self.where))

    def _sweep(self, runner: EraseRunner) -> None:
        """Sweep, and note that in the table of requests. Raises InvalidSpec unless `--keys` has all erased values."""
        runner.finish()
        if self._is_unswept():
            raise InvalidSpec("--keys", self.command.keys, "all people of the approved plan, whose rows are swept")
        if self.requests is not None:
            self.requests.write_done(self._until_ms)

    @property
    def _until_ms(self) -> int:
        return moment_of(str(self.command.until), "until")
