"""Commands on a stream's state answer without Spark if they can: refusals, and a plan that was carried out before."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sessionizer import errors
from sessionizer.cli.app import app
from sessionizer.control.lease import acquire
from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import (
    Ending,
    OperationRecord,
    OperationStage,
    pending_operation,
    read_operations,
)
from sessionizer.control.records.supervision_records import DesiredState, read_desired, write_desired
from sessionizer.core.definition.rules import Clock
from sessionizer.errors import DriverStillRuns, InvalidSpec, PlanChanged, StreamBegun
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, active_lineage, make_lineage, start_lineage
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes, LineageSpec
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin
from support.checkpoints.fabricated_checkpoints import fabricate, fabricated
from support.expected.file_accesses import folder_digest
from support.fixtures.reviewed import Reviewed
from support.places import known, opened
from support.processes.fabricated_platform import Platform
from support.verbs.begun_restore import begun_restore, write_operation

pytestmark = pytest.mark.usefixtures("no_spark")
COMMANDS = {
    "restore": ("monday",),
    "rollback": (),
    "rescale": ("--key-groups", "8"),
    "switch": ("--start-at", "latest"),
    "apply": (),
    "upgrade": (),
    "seed": ("--history", "source"),
}
REQUESTS: dict[str, dict[str, object]] = {
    "restore": {"savepoint": "monday"},
    "rollback": {},
    "rescale": {"key_groups": 8},
    "switch": {"start_at": "latest"},
}
WITHOUT_SPEC = {"rollback", "restore"}
IN_PLACE = {"apply", "upgrade"}
"""Commands that read the newest batch first, because they may need no new lineage."""
DIGEST = "0123456789abcdef"


@pytest.fixture
def home(platform: Platform) -> StreamHome:
    return platform.add_prepared("clicks")


def asked(platform: Platform, verb: str, *options: str) -> Result:
    command = [verb, "clicks", *COMMANDS[verb], *options, "--home", str(platform.home)]
    streams = [] if verb in WITHOUT_SPEC else ["--streams", str(platform.streams)]
    return CliRunner().invoke(app, [*command, *streams])


def carried_out(platform: Platform, operation: str) -> Result:
    places = ["--home", str(platform.home), "--streams", str(platform.streams)]
    return CliRunner().invoke(app, ["carry-out", "clicks", operation, *places])


def typed(platform: Platform, verb: str, *options: str) -> BaseException | None:
    return asked(platform, verb, *options).exception


def done(home: StreamHome, verb: str) -> OperationRecord:
    """The record of an operation that made the active lineage."""
    record = replace(
        begun_restore(savepoint=""),
        verb=verb,
        step=OperationStage.ACTIVATED,
        lineage_to=start_lineage(home),
        outcome=Ending.DONE,
    )
    write_operation(home, record)
    return record


NEVER_RAN: dict[str, type[errors.SessionizerError]] = {
    "restore": errors.UnknownSavepoint,
    "rollback": errors.NothingToSave,
    "rescale": errors.NothingToSave,
    "switch": errors.NothingToSave,
    "apply": errors.NothingToSave,
    "upgrade": errors.NothingToSave,
}


@pytest.mark.parametrize("place", ["foo://savepoints", "/vault/[a]"])
@pytest.mark.parametrize("words", [("restore", "monday"), ("upgrade",), ("erase", "--keys", "-")])
def test_a_folder_that_nothing_reads(platform: Platform, home: StreamHome, words: tuple[str, ...], place: str) -> None:
    start_lineage(home)
    verb, *options = words
    places = ["--in", place, "--home", str(platform.home)]
    error = CliRunner().invoke(app, [verb, "clicks", *options, *places]).exception
    assert isinstance(error, errors.InvalidSpec)
    assert (error.field, error.value) == ("--in", place)


@pytest.mark.parametrize("verb", NEVER_RAN)
def test_a_stream_that_never_ran(platform: Platform, home: StreamHome, verb: str) -> None:
    assert isinstance(typed(platform, verb), NEVER_RAN[verb])


@pytest.mark.parametrize("verb", COMMANDS)
def test_another_operation_that_is_not_over(platform: Platform, home: StreamHome, verb: str) -> None:
    other = "apply" if verb != "apply" else "rescale"
    write_operation(home, new_operation(home, other, DIGEST, "ann", (start_lineage(home), 7)))
    error = typed(platform, verb)
    assert isinstance(error, errors.OperationPending)


@pytest.mark.parametrize("verb", COMMANDS)
@pytest.mark.parametrize("digest", ["0123", "0123456789ABCDEF", DIGEST + "0", "yes", ""])
def test_a_digest_that_no_plan_can_have(platform: Platform, home: StreamHome, verb: str, digest: str) -> None:
    error = typed(platform, verb, "--approve", digest)
    assert isinstance(error, errors.InvalidSpec)
    assert error.field == "--approve"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"abandoned_by": "olga"}, errors.StreamMovedOn),
        ({"abandoned_by": None}, errors.UnknownSavepoint),
        ({"verb": "sing"}, errors.DamagedFile),
        ({"request": {"savepoint": 7}}, errors.DamagedFile),
        ({"id": "another"}, errors.InvalidSpec),
    ],
    ids=["given up", "failed: it is tried again", "an unknown verb", "a damaged request", "an unknown id"],
)
def test_an_operation_that_is_over_or_unknown(
    platform: Platform, home: StreamHome, changes: dict[str, Any], error: type[errors.SessionizerError]
) -> None:
    start_lineage(home)
    failed = replace(begun_restore("one", savepoint="monday"), request=REQUESTS["restore"], outcome=Ending.ABANDONED)
    write_operation(home, replace(failed, **changes))
    assert isinstance(carried_out(platform, "one").exception, error)


@pytest.mark.parametrize("by_id", [True, False])
def test_a_begun_operation_whose_request_is_unknown(platform: Platform, home: StreamHome, *, by_id: bool) -> None:
    lineage = start_lineage(home)
    begun = replace(
        begun_restore("one", savepoint=""), verb="rescale", lineage_from=lineage, request={"canary": "many"}
    )
    write_operation(home, begun)
    error = carried_out(platform, "one").exception if by_id else typed(platform, "rescale", "--approve", begun.digest)
    assert isinstance(error, errors.DamagedFile)
    assert str(error.path).endswith("operations/one.json")


def test_a_lineage_that_has_none_before_it(platform: Platform, home: StreamHome) -> None:
    start_lineage(home)
    assert isinstance(typed(platform, "rollback"), errors.NoWayBack)


def test_a_stream_that_has_begun_is_not_seeded(platform: Platform, home: StreamHome) -> None:
    lineage = start_lineage(home)
    error = typed(platform, "seed")
    assert isinstance(error, errors.StreamBegun)
    assert error.lineage == lineage


def test_a_rollback_that_another_plan_was_approved_for(
    platform: Platform, home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = start_lineage(home)
    lineage = make_lineage(home, None)
    ORIGIN_FILE.of(home, lineage).write(Origin("rescale", 1, before, 7))
    activate_lineage(home, lineage, before)
    monkeypatch.setattr("sessionizer.state.lineages.origin.read_last_commit", lambda _: 7)
    error = typed(platform, "rollback", "--approve", DIGEST)
    assert isinstance(error, errors.PlanChanged)
    assert error.approved == DIGEST


def test_a_home_without_the_stream(platform: Platform, home: StreamHome, tmp_path: Path) -> None:
    shutil.rmtree(home.root)
    for verb in ("rollback", "rescale", "switch", "apply"):
        assert isinstance(typed(platform, verb), errors.NothingToSave)


@pytest.mark.parametrize("verb", sorted(COMMANDS.keys() - IN_PLACE))
def test_a_verb_that_is_typed_again_says_that_it_is_done(
    platform: Platform, home: StreamHome, verb: str, reviewed: Reviewed
) -> None:
    record = done(home, verb)
    result = asked(platform, verb, "--approve", record.digest)
    assert result.exit_code == 0, result.exception
    reviewed(result.output)
    assert read_operations(home) == [record]


def test_another_digest_another_verb_and_a_stream_that_has_gone_elsewhere_are_not_done(
    platform: Platform, home: StreamHome
) -> None:
    record = done(home, "restore")
    approved = ("--approve", record.digest)
    assert isinstance(asked(platform, "restore", "--approve", "0" * 16).exception, errors.UnknownSavepoint)
    assert isinstance(asked(platform, "restore").exception, errors.UnknownSavepoint)
    for other in (replace(record, verb="rescale"), replace(record, outcome=Ending.ABANDONED)):
        write_operation(home, other)
        assert isinstance(asked(platform, "restore", *approved).exception, errors.UnknownSavepoint)
    write_operation(home, record)
    assert asked(platform, "restore", *approved).exit_code == 0
    start_lineage(home)
    assert isinstance(asked(platform, "restore", *approved).exception, errors.UnknownSavepoint)


def activated(home: StreamHome, verb: str) -> OperationRecord:
    """The record of an operation whose process was killed after it had made its lineage the active one."""
    savepoint = COMMANDS[verb][0] if verb == "restore" else ""
    older = start_lineage(home)
    left = start_lineage(home, older)
    record = new_operation(home, verb, DIGEST, "ann", (left, 7), savepoint=savepoint, request=REQUESTS[verb])
    record = record.record_step(OperationStage.TAKEN_BACK)
    write_operation(home, record)
    lineage = older
    if verb != "rollback":
        lineage = make_lineage(home, None)
        ORIGIN_FILE.of(home, lineage).write(Origin(verb, epoch_ms(), left, 7, savepoint or None))
    activate_lineage(home, lineage, left)
    return record


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("verb", ["restore", "rollback", "rescale", "switch"])
def test_an_operation_that_has_its_lineage_is_finished_without_a_plan(
    platform: Platform, home: StreamHome, verb: str, *, by_id: bool
) -> None:
    """A plan would be of the new lineage. Nothing says how the file or the savepoint is by now."""
    record = activated(home, verb)
    shown = asked(platform, verb)
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert DIGEST in shown.stderr
    assert isinstance(typed(platform, verb, "--approve", "f" * 16), errors.PlanChanged)
    assert pending_operation(home) == record
    finished = carried_out(platform, record.id) if by_id else asked(platform, verb, "--approve", DIGEST)
    assert finished.exit_code == 0
    (noted,) = read_operations(home)
    assert (noted.outcome, noted.lineage_to) == (Ending.DONE, active_lineage(home))
    again = carried_out(platform, record.id)
    assert (again.exit_code, "is done" in again.stdout) == (0, True)
    assert read_operations(home) == [noted]


def test_a_refusal_tells_of_the_operation_that_keeps_the_stream_stopped(platform: Platform, home: StreamHome) -> None:
    record = new_operation(home, "restore", DIGEST, "ann", (start_lineage(home), 7), savepoint="monday")
    write_operation(home, record.record_step(OperationStage.STOPPED))
    error = typed(platform, "restore", "--approve", DIGEST)
    assert isinstance(error, errors.UnknownSavepoint), "it was removed meanwhile"
    notes = "\n".join(error.__notes__)
    assert record.command in notes
    assert "sessionizer abandon clicks" in notes
    acquire(home, f"restore-{record.id}")
    error = known(typed(platform, "restore", "--approve", DIGEST))
    (note,) = error.__notes__
    assert f"pid {os.getpid()}" in note, "another process carries it out, so nobody resumes it"


@pytest.fixture
def committed(home: StreamHome) -> StreamHome:
    """A stream of four key groups, with two committed batches."""
    lineage = start_lineage(home, spec=LineageSpec({"source": {"format": "files"}, "key_groups": 4}))
    TYPES_FILE.of(home, lineage).write(KeptTypes(Clock.EVENT_TIME))
    fabricated(2).put(opened(home.checkpoint(lineage)))
    return home


def test_a_savepoint_that_is_complete_is_not_made_again(
    platform: Platform, committed: StreamHome, reviewed: Reviewed
) -> None:
    before = folder_digest(opened(fabricate(committed.savepoints, "monday").root))
    done = platform.call("savepoint", "create", "clicks", "--native", "--id", "monday", "--json")
    assert (done.exit_code, json.loads(done.stdout)["made_at"]) == (0, 1_000), done.output
    reviewed(*(line for line in done.stderr.splitlines() if line.startswith("note: ")))
    assert folder_digest(opened(committed.savepoints / "monday")) == before


@pytest.mark.usefixtures("committed")
def test_a_key_group_that_the_state_does_not_have(platform: Platform) -> None:
    error = CliRunner().invoke(app, ["state", "show", "clicks", "--group", "4", "--home", str(platform.home)]).exception
    assert isinstance(error, errors.InvalidSpec)
    assert (error.field, error.value) == ("--group", 4)


def test_a_seed_needs_a_history(platform: Platform, home: StreamHome) -> None:
    """The line of a command is made from its declaration, which says what has no default."""
    result = platform.call("seed", "clicks")
    assert (result.exit_code, "--history" in result.stderr) == (2, True)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "1.json").write_text("{}")
    return str(folder)


def test_a_seed_by_another_plan_is_abandoned_unless_somebody_carries_it_out(platform: Platform, archive: str) -> None:
    home = platform.add_prepared("clicks")
    begun = replace(begun_restore(savepoint=""), verb="seed", lineage_from="", wanted=DesiredState.STOPPED)
    write_operation(home, begun)
    write_desired(home, DesiredState.MAINTENANCE, by="ann", why="seed")
    lease = acquire(home, f"seed-{begun.id}")
    error = platform.call("seed", "clicks", "--history", archive, "--wait", "1").exception
    assert isinstance(error, DriverStillRuns)
    assert (pending_operation(home), read_desired(home).state) == (begun, DesiredState.MAINTENANCE)

    lease.release()
    error = platform.call("seed", "clicks", "--history", archive, "--wait", "1").exception
    assert isinstance(error, PlanChanged)
    assert pending_operation(home) is None
    assert read_desired(home).state is DesiredState.STOPPED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--history", "nowhere"), "--history is 'nowhere'. Use a folder of files, a Delta table, or 'source'"),
        (("--history", "source", "--live-from", "now"), "--live-from is 'now'. Omit it"),
        (("--history", "jdbc:postgresql://db/shop"), "--table is missing. Use the name of a table or view"),
        (("--table", "visits"), "--table is 'visits'. Omit it"),
        (("--query", "select 1"), "--query is 'select 1'. Omit it"),
        (("--history", "checkpoint:nowhere"), "--query is missing. Use a query of history"),
        (
            ("--history", "checkpoint:nowhere", "--query", "select 1"),
            "--history is 'checkpoint:nowhere'. Use checkpoint: and the checkpoint of a query",
        ),
        (("--live-from", "here"), "--live-from is 'here'. Use beginning, now, or JSON such as"),
        (("--until", "noon"), "--until is 'noon'. Use a moment in ISO 8601"),
        (("--until", "2999-01-01"), "--until is '2999-01-01'. Use a moment since 1970 that has passed"),
    ],
)
def test_options_that_cannot_be(platform: Platform, archive: str, options: tuple[str, ...], message: str) -> None:
    platform.add("clicks")
    given = options if options[0] == "--history" else ("--history", archive, *options)
    error = platform.call("seed", "clicks", *given).exception
    assert isinstance(error, InvalidSpec)
    assert message in str(error)


@pytest.mark.parametrize("url", ["jdbc:postgresql://db/shop?password=tell", "jdbc:postgresql://ann:tell@db/shop"])
def test_a_password_in_a_url_is_refused_and_not_said(platform: Platform, url: str, reviewed: Reviewed) -> None:
    platform.add("clicks")
    error = platform.call("seed", "clicks", "--history", url, "--table", "visits").exception
    assert isinstance(error, InvalidSpec)
    reviewed(error)
    assert "tell" not in str(error)


def test_a_stream_that_began_while_spark_started_is_not_seeded(
    platform: Platform, archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, where = platform.add_prepared("clicks"), ("--history", archive)
    began: list[tuple[str, dict[str, str]]] = []

    def started(*_: object, **__: object) -> None:
        lineage = start_lineage(home)
        began.append((lineage, folder_digest(home.root)))

    monkeypatch.setattr("sessionizer.cli.terminal.start_spark", started)
    monkeypatch.setattr("sessionizer.spark.sinks.examine.examine", lambda *_: None)
    refused = platform.call("seed", "clicks", *where, "--approve", "0" * 16).exception
    assert isinstance(refused, PlanChanged)
    error = platform.call("seed", "clicks", *where, "--approve", refused.now).exception
    ((lineage, before),) = began
    assert isinstance(error, StreamBegun)
    assert error.lineage == lineage
    assert folder_digest(home.root) == before
