"""An erasure: no file of the stream holds the erased people, none of them returns, and every other row stays."""

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionizer.cli.state_commands.course import Shared
from sessionizer.cli.state_commands.erasure import EraseCourse
from sessionizer.control.records.erasure_record import SECRET, read_erasures, read_unswept, require_swept
from sessionizer.core.definition.oracle import sessionize
from sessionizer.erasing.records import find_left
from sessionizer.errors import InvalidSpec, NoWayBack, OperationPending, StillThere
from sessionizer.home.clock import epoch_ms
from sessionizer.home.home_identity import owner_name
from sessionizer.home.names import PROOF, mint_id
from sessionizer.lineage.active import active_lineage
from sessionizer.spark.internals.delta_append import Transaction, write_once
from sessionizer.spark.proof.prove import add_to_proof_table
from sessionizer.spark.query.assembly import rules_of
from sessionizer.spark.sinks import write
from sessionizer.spark.sinks.tables import claim_tables
from sessionizer.spark.state.commands.erasures import EraseRunner
from sessionizer.spark.state.commands.restores import RestoreRunner
from sessionizer.spark.state.erasing import Sweep
from sessionizer.spark.state.savepoints import saved_state
from sessionizer.state.commands.erasures import Erase, count_requests
from sessionizer.state.commands.restores import Restore
from sessionizer.state.commands.seeds import NOW
from sessionizer.state.lineages.origin import rollback_of
from sessionizer.state.proof.comparison import DifferenceKind, DifferenceSample, RowDifference
from sessionizer.state.proof.result import JudgedDifference, Proof, TableProof
from sessionizer.state.savepoints.listing import complete_savepoint, list_savepoints
from support.expected.checkpoint_log import CheckpointLog, MicroBatch
from support.expected.landed import Landed, as_landed, batches_of, landed, table_rows
from support.places import REPOSITORY, opened
from support.processes.in_process import catch_up, drain
from support.releases.environments import type_with
from support.streams.click_files import START_MS, ClickFiles, write_aside
from support.streams.stage import CLICK_COLUMNS, Stage, clicks_spec
from support.verbs.begun_restore import carry_out
from support.verbs.reseeded_stream import reader_of, seed
from support.verbs.restored_stream import save

READ_BEFORE = 4


@dataclass(frozen=True)
class Erased:
    """A stream of ``clicks`` whose ``people`` are to be erased, after ``READ_BEFORE`` of its ``files`` and a savepoint
    of each kind. ``then``: the batches before the erasure, whose checkpoint it removes."""

    spark: SparkSession
    stage: Stage
    clicks: ClickFiles
    files: list[Path]
    people: tuple[str, ...]
    then: tuple[MicroBatch, ...]

    def runner(self) -> EraseRunner:
        home, keys = self.stage.stream_home, str(self.stage.root / "people")
        folders = (home.savepoints,)
        return EraseRunner(spark=self.spark, home=home, command=Erase(keys=keys), people=self.people, folders=folders)

    def erase(self) -> None:
        runner = self.runner()
        carry_out(runner)
        runner.finish()

    def left(self) -> list[str]:
        """The files that hold one of these people, and those that cannot be read."""
        found = find_left(self.stage.stream_home, self.people, ())
        return [f"{each.file} by {each.decoded_by}: {each.unreadable}" for each in found]

    def expected(self) -> Landed:
        """The rows that the definition makes of all clicks, without those of these people."""
        (_, *since) = CheckpointLog(self.stage.checkpoint).committed()  # the first one is a seed
        batches = batches_of([*self.then, *since], self.clicks)
        rows = [row for name in sorted(self.clicks) for row in self.clicks[name]]
        outcome = as_landed(sessionize(batches, rules_of(self.stage.spec())), rows)
        return Landed(
            Counter({row: n for row, n in outcome.sessions.items() if row[1] not in self.people}),
            Counter({row: n for row, n in outcome.late.items() if row[0] not in self.people}),
            outcome.quarantine,
        )


@pytest.fixture
def erased(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Erased:
    monkeypatch.setenv(SECRET, "a secret of the tests")
    stage, (clicks, files) = Stage.begun(tmp_path, clicks_spec()), write_aside(tmp_path, 6)
    stage.bring(files[:READ_BEFORE])
    catch_up(spark, stage)
    home = stage.stream_home
    claim_tables(spark, home.streamed_locations(None), owner_name(home.name, home.control_base), [str(stage.lineage)])
    save(spark, stage, "canonical")
    save(spark, stage, "native", native=True)
    events = spark.read.format("delta").load(str(home.savepoints / "canonical" / "open_events"))
    open_keys = {row.key for row in events.select("key").distinct().collect()}
    people = tuple(sorted(open_keys & {str(row[1]) for row in landed(stage).sessions})[:3])
    assert len(people) == 3
    return Erased(spark, stage, clicks, files, people, tuple(CheckpointLog(stage.checkpoint).committed()))


def test_all_else_stays_and_later_events_of_the_past_are_dropped(
    erased: Erased, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, before = erased.stage.stream_home, erased.stage.lineage
    plan = erased.runner().look().decision
    assert (plan.people, plan.native, plan.canonical, plan.lineages) == (3, ("native",), ("canonical",), ())
    assert erased.left()
    assert plan.open_events > 0
    assert plan.rows["sessions"] > 0
    assert active_lineage(home) == before, "nobody approved it"

    erased.erase()
    assert active_lineage(home) != before
    (noted,) = read_erasures(home)
    assert len(noted.erasure.digests) == 3 * 16
    (anew,) = list_savepoints(home.savepoints, epoch_ms())
    assert (anew.id, anew.begun and anew.begun.why) == ("canonicale", "tests"), "a scheduled one stays a scheduled one"
    assert erased.left() == []
    held = {row[1] for row in landed(erased.stage).sessions}
    assert held
    assert held.isdisjoint(erased.people)

    for secret in ("", "short", "another secret of the tests"):
        with monkeypatch.context() as patch:
            patch.setenv(SECRET, secret)
            with pytest.raises(InvalidSpec) as refused:
                catch_up(erased.spark, erased.stage)
        assert refused.value.field == SECRET, "without the secret nothing runs"

    erased.stage.bring(erased.files[READ_BEFORE:])
    drain(erased.spark, erased.stage)
    assert erased.left() == [], "later events of before the erasure bring nobody back"
    expected, found = erased.expected(), landed(erased.stage)
    assert (found.sessions, found.late) == (expected.sessions, expected.late)
    dropped = {row: n for row, n in found.quarantine.items() if row[0] == "erased"}
    assert dropped.keys() == {("erased", None)}
    assert not [row for row in found.quarantine if row[1] and any(f'"{key}"' in row[1] for key in erased.people)]
    gone = expected.quarantine - found.quarantine
    assert all(any(key in str(row[1]) for key in erased.people) or row[0] == "conflicting_duplicate" for row in gone)


@pytest.mark.long
def test_nobody_comes_back_out_of_a_vault_an_old_file_or_a_history(erased: Erased, tmp_path: Path) -> None:
    stage, home = erased.stage, erased.stage.stream_home
    shutil.copytree(opened(home.savepoints), tmp_path / "vault")
    erased.erase()
    with pytest.raises(NoWayBack):
        rollback_of(home)

    for kind in ("canonical", "native"):
        saved, manifest = complete_savepoint(tmp_path / "vault", kind, epoch_ms())
        restore = RestoreRunner(spark=erased.spark, home=home, command=Restore(), savepoint=saved, manifest=manifest)
        carry_out(restore, savepoint=kind)
        catch_up(erased.spark, stage)
        assert erased.left() == [], kind

    shutil.copy2(erased.files[0], stage.feed / f"again-{erased.files[0].name}")
    catch_up(erased.spark, stage)
    assert erased.left() == []
    assert {row["reason"] for row in table_rows(stage.table("quarantine")) if row["raw"] is None} == {"erased"}

    archive = str(stage.root / "archive")
    rows = erased.spark.read.schema(CLICK_COLUMNS).json(str(tmp_path / "clicks"))
    rows.coalesce(1).write.format("delta").save(archive)
    seed(stage, reader_of(erased.spark, stage, archive, NOW, None))
    assert erased.left() == []
    assert landed(stage).sessions


@pytest.mark.long
def test_a_sweep_takes_what_a_killed_batch_left_and_leaves_what_came_later(
    erased: Erased, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, home = erased.stage, erased.stage.stream_home
    for number in (1, 2):  # an hour later each, so that all sessions of these people are closed
        write_click(stage, f"y{number}", "another", START_MS + number * 3_600_000)
    with monkeypatch.context() as patch, suppress(StreamingQueryException):
        patch.setattr(write, "write_once", dies_with_rows_of(erased.people))
        catch_up(erased.spark, stage)
    assert unlisted_files(erased), "the batch has written files, and did not commit them"

    with monkeypatch.context() as patch:
        patch.setattr(Sweep, "erase_rows", _die)
        with pytest.raises(KeyboardInterrupt):
            erased.erase()
    (unswept,) = read_unswept(home)
    person, at = erased.people[0], unswept.until + 1_000
    write_click(stage, "z", person, at)
    drain(erased.spark, stage)
    with pytest.raises(OperationPending):
        require_swept(home)

    erased.runner().finish()
    assert read_unswept(home) == []
    assert [row["started_at"].timestamp() * 1_000 for row in sessions_of(stage, person)] == [at]
    assert not any(sessions_of(stage, other) for other in erased.people[1:])
    assert unlisted_files(erased) == []


def write_click(stage: Stage, name: str, person: str, at: int) -> None:
    click = {"user_id": person, "client": "web", "ts": at, "event_id": name, "type": "view"}
    (stage.feed / f"{name}.json").write_text(f"{json.dumps(click)}\n")


def dies_with_rows_of(people: Sequence[str]) -> Callable[..., int | None]:
    """Return a writer of batches that dies between the data files and the commit, if ``people`` have sessions in it."""

    def write_and_die(
        frame: DataFrame, location: str, transaction: Transaction, permit: Callable[[], None], *, replaces: bool = False
    ) -> int | None:
        asked = iter(range(2))

        def die() -> None:
            if next(asked):
                raise OSError("killed")

        fatal = location.endswith("/sessions") and not frame.where(F.col("key").isin(*people)).isEmpty()
        return write_once(frame, location, transaction, die if fatal else permit, replaces=replaces)

    return write_and_die


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def unlisted_files(erased: Erased) -> list[Path]:
    """The data files of ``sessions`` with rows of these people that the table does not have."""
    table = opened(erased.stage.table("sessions"))
    listed = {Path(file).name for file in erased.spark.read.format("delta").load(str(table)).inputFiles()}
    there = [file for file in table.rglob("*.parquet") if file.name not in listed and "_delta_log" not in file.parts]
    return [file for file in there if not set(erased.people).isdisjoint(pq.read_table(file)["key"].to_pylist())]


def sessions_of(stage: Stage, person: str) -> list[dict[str, Any]]:
    return [row for row in table_rows(stage.table("sessions")) if row["key"] == person]


@pytest.mark.long
def test_what_proofs_restores_and_a_killed_sweep_left_goes_and_the_savepoint_stays(
    erased: Erased, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, person = erased.stage.stream_home, erased.people[0]
    add_to_proof_table(erased.spark, home, proof_with(person, erased.stage.lineage))
    add_to_proof_table(erased.spark, home, proof_with("u-nobody-else", erased.stage.lineage))
    copies = [home.proofs / mint_id(epoch_ms() - 60_000), home.unpacked / "native"]
    for copy in copies:
        opened(copy).mkdir(parents=True)
        (opened(copy) / "state.json").write_text(json.dumps({"key": person}))
    with monkeypatch.context() as patch:
        patch.setattr(saved_state, "write_manifest", _die)
        with pytest.raises(KeyboardInterrupt):
            erased.erase()
    assert not any(opened(copy).exists() for copy in copies)
    begun = opened(home.savepoints) / "canonicale" / "begun.json"
    begun.write_text(json.dumps({**json.loads(begun.read_text()), "process_started": 1}))  # of a process that is gone

    erased.runner().finish()
    assert [(each.id, each.is_complete) for each in list_savepoints(home.savepoints, epoch_ms())] == [
        ("canonicale", True)
    ]
    assert erased.left() == []
    kept = erased.spark.read.format("delta").load(str(home.table(PROOF))).select("kind", "rows", "samples").collect()
    assert Counter(row.kind for row in kept) == {"identical": 2, "only_old": 2}
    assert sum("u-nobody-else" in row.samples for row in kept) == 1


def proof_with(person: str, lineage: str | None) -> Proof:
    """A proof that shows a session of the person."""
    sample = DifferenceSample({"session_id": "s"}, {"events": json.dumps([{"key": person, "page": None}])}, None)
    difference = RowDifference(DifferenceKind.ONLY_OLD, (), 1, (sample,))
    table = TableProof("sessions", 1, 0, 0, (JudgedDifference(difference, ()),), ())
    return Proof(mint_id(epoch_ms()), "clicks", str(lineage), epoch_ms(), 1, 2, 3, 0.5, (), (), (table,), (), None)


@pytest.mark.long
def test_requests_of_a_table_are_carried_out_once_and_get_the_moment(erased: Erased) -> None:
    spark, stage, place = erased.spark, erased.stage, str(erased.stage.root / "requests")
    first, second, third = erased.people
    past, future = datetime(2026, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
    requests = spark.createDataFrame(
        [(first, stage.name, past, None), (second, None, None, None), (third, "another", past, None),
         (third, None, future, None), (None, None, past, None)],
        "key string, stream string, requested_at timestamp, done map<string, timestamp>",
    )  # fmt: skip
    requests.write.format("delta").save(place)
    for_page = count_requests(place, dict.fromkeys([stage.name, "another", "third"], ()), epoch_ms())
    assert list(for_page) == [(stage.name, "key", 2), ("another", "key", 2), ("third", "key", 1)]

    def course(approve: str | None = None) -> EraseCourse:
        shared = Shared(stream=stage.name, approve=approve)
        begun = EraseCourse(command=Erase(keys=place), shared=shared, where=stage.stream_home)
        begun.choose()
        return begun

    runner = course().make_runner(spark)
    assert runner.people == tuple(sorted((first, second)))
    approved = course(carry_out(runner).digest)
    approved._sweep(approved.make_runner(spark))
    (noted,) = read_erasures(stage.stream_home)
    moments = {tuple(row)[:3]: dict(row.done or {}) for row in spark.read.format("delta").load(place).collect()}
    done = {row[0] for row, moment in moments.items() if moment}
    assert done == {first, second}
    for row, moment in moments.items():
        if row[0] in done:
            at = moment.pop(stage.name).timestamp() * 1000
            assert (int(at), moment) == (noted.swept_at, {})
    again = course().make_runner(spark)
    assert again.people == ()
    assert not again.look().is_possible
    assert list(count_requests(place, {stage.name: ()}, epoch_ms())) == []


@pytest.mark.long
def test_typed_it_is_planned_carried_out_swept_and_proven(erased: Erased) -> None:
    stage = erased.stage

    def erase(*options: str) -> subprocess.CompletedProcess[str]:
        return type_with(REPOSITORY, "erase", stage, "--keys", "-", *options, text="\n".join(erased.people))

    before = erase("--verify", "--json")
    assert before.returncode == StillThere.exit_code, before.stderr
    assert json.loads(before.stdout)["left"] == len(erased.people)
    shown = erase("--json")
    assert shown.returncode == 0, shown.stderr
    plan = json.loads(shown.stdout)
    assert plan["people"] == len(erased.people)
    done = erase("--approve", plan["digest"])
    assert done.returncode == 0, done.stderr
    assert not any(value in done.stdout + done.stderr for value in erased.people)
    (noted,) = read_erasures(stage.stream_home)
    assert noted.swept_at is not None
    again = erase("--approve", plan["digest"])
    assert (again.returncode, len(read_erasures(stage.stream_home))) == (0, 1), again.stderr
    after = erase("--verify", "--json")
    assert (after.returncode, json.loads(after.stdout)["files"]) == (0, []), after.stdout
