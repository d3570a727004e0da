"""``sessionizer upgrade`` and ``apply`` over a running stream's records: the plan needs no Spark."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.control.records.operation_record import (
    OperationRecord,
    OperationStage,
    read_operations,
    require_request,
    write_request,
)
from sessionizer.control.records.supervision_records import WATCH_FILE, DesiredState, WatchRecord, read_desired
from sessionizer.core.key_group.group_load import OpenInGroup
from sessionizer.deployment import upgrade_plan
from sessionizer.deployment.running_spec import approve_spec, new_record
from sessionizer.deployment.upgrade_plan import require_no_loss
from sessionizer.deployment.verdicts import STATE
from sessionizer.errors import EngineChanged, InvalidSpec, NotAccepted, PlanChanged, UnreadableLineage
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage import fingerprint as checkpoint_record
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.fingerprint import (
    CHECKPOINT_FILE,
    DELTA,
    FINGERPRINT_FILE,
    SPARK,
    Fingerprint,
    note_programs,
    present_fingerprint,
    require_readable_lineage,
    write_fingerprint,
)
from sessionizer.lineage.kept_spec import SPEC_FILE, TYPES_FILE, KeptTypes, LineageSpec
from sessionizer.state.commands.upgrades import Upgrade
from sessionizer.state.lineages.committed_batch import read_committed_batch
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from support.checkpoints.fabricated_checkpoints import fabricated
from support.fixtures.reviewed import Reviewed
from support.places import known, mounted
from support.streams.stage import clicks_spec

pytestmark = pytest.mark.usefixtures("no_spark")
TYPES = {name: ["string"] for name in ("type", "page", "device")} | {"amount": ["double"]}


@pytest.fixture
def lineage(home: StreamHome) -> str:
    """A lineage with three committed batches and twelve open sessions."""
    home.prepare_data()
    spec = StreamSpec.model_validate({"name": "clicks", **clicks_spec()})
    lineage = start_lineage(home, spec=LineageSpec(document_of(spec)))
    for name, content in fabricated(3).contents.items():
        file = mounted(home.checkpoint(lineage)) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    TYPES_FILE.of(home, lineage).write(KeptTypes("event_time", TYPES))
    opened = OpenInGroup(sessions=12, latest_due_ms=500, held_bytes=100, admitted=3, merged=True)
    OpenSessions(home.lineage(lineage).open_sessions).learn(2, [(0, opened)])
    return lineage


def write_spec(home: StreamHome, **changes: Any) -> Path:
    folder = mounted(home.root).parent.parent / "specs"
    folder.mkdir(exist_ok=True)
    (folder / "clicks.yaml").write_text(yaml.safe_dump({"name": "clicks", **clicks_spec(), **changes}, sort_keys=False))
    return folder


def mapping(**changed: Any) -> dict[str, Any]:
    return {"mapping": {**clicks_spec()["mapping"], **changed}}


def typed(home: StreamHome, verb: str, folder: Path, *options: str) -> Result:
    places = ("--home", str(mounted(home.root).parent.parent), "--streams", str(folder))
    return CliRunner().invoke(app, [verb, "clicks", *options, *places])


def plan(home: StreamHome, folder: Path, *options: str) -> dict[str, Any]:
    result = typed(home, "upgrade", folder, "--json", *options)
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def test_a_plan_counts_the_sessions_and_names_what_to_accept(home: StreamHome, lineage: str) -> None:
    folder = write_spec(home, **mapping(key="device"))
    found = plan(home, folder)
    assert (found["lineage"], found["batch_id"], found["open_sessions"]) == (lineage, 2, 12)
    assert [(each["name"], each["verdict"]) for each in found["differences"]] == [("mapping.key", "partial")]
    assert (found["unaccepted"], found["possible"], found["steps"]) == (["mapping.key"], False, [])
    accepted = plan(home, folder, "--accept", "mapping.key")
    assert (accepted["unaccepted"], accepted["possible"]) == ([], True)
    assert accepted["steps"] == ["Stop", "CopyCheckpoint", "PrepareTables", "WriteSpec", "NotePrograms"]
    assert accepted["downtime"]["seconds"] > 0
    assert accepted["digest"] != found["digest"]


def test_a_replay_is_for_a_new_lineage_alone(home: StreamHome, lineage: str) -> None:
    folder = write_spec(home, trigger_interval="2 seconds")
    plain, in_place = plan(home, folder), plan(home, folder, "--replay")
    assert (in_place["digest"], in_place["steps"]) == (plain["digest"], plain["steps"])
    anew, replayed = plan(home, folder, "--new-lineage"), plan(home, folder, "--new-lineage", "--replay")
    assert anew["digest"] != replayed["digest"]
    assert replayed["steps"] == [
        *("WriteSavepoint", "StartLineage", "Compare", "KeepSpec", "Stop", "PrepareTables", "SetPosition", "Canary"),
        *("NoteTables", "PointOfNoReturn", "DeleteLaterRows", "Activate"),
    ]


@pytest.mark.parametrize(
    ("block", "changed", "why"),
    [
        ("source", {"format": "socket"}, "socket"),
        ("rules", {"time_mode": "processing_time"}, "processing_time"),
        ("rules", {"time_mode": "none"}, "none"),
    ],
)
def test_no_replay_of_a_stream_that_reads_otherwise_the_second_time(
    home: StreamHome, lineage: str, block: str, changed: dict[str, str], why: str
) -> None:
    document = document_of(StreamSpec.model_validate({"name": "clicks", **clicks_spec()}))
    SPEC_FILE.of(home, lineage).write(LineageSpec({**document, block: {**document[block], **changed}}))
    error = typed(home, "upgrade", write_spec(home), "--replay").exception
    assert isinstance(error, InvalidSpec)
    assert error.field == "--replay"
    assert why in str(error)


def test_a_plan_that_is_not_accepted_is_not_carried_out(home: StreamHome, lineage: str) -> None:
    folder = write_spec(home, **mapping(key="device"))
    for verb in ("upgrade", "apply"):
        digest = json.loads(typed(home, verb, folder, "--json").stdout)["digest"]
        error = typed(home, verb, folder, "--approve", digest).exception
        assert isinstance(error, NotAccepted)
        assert error.names == ("mapping.key",)


def test_neither_a_start_nor_its_form_takes_what_must_be_accepted(home: StreamHome, lineage: str) -> None:
    folder = write_spec(home, **mapping(key="device"))
    with pytest.raises(NotAccepted):
        approve_spec(home, folder, "clicks")
    write_spec(home, trigger_interval="2 seconds")
    assert [change.field for change in approve_spec(home, folder, "clicks").changes] == ["trigger_interval"]
    home.lineage(lineage).open_sessions.unlink()
    OpenSessions(home.lineage(lineage).open_sessions).learn(2, [])
    changed = StreamSpec.model_validate({"name": "clicks", **clicks_spec(), **mapping(key="device")})
    require_no_loss(home, lineage, changed)


def test_another_line_of_spark_is_carried_over_only_if_accepted(home: StreamHome, lineage: str) -> None:
    born, folder = present_fingerprint(), write_spec(home)
    write_fingerprint(home, lineage, Fingerprint(born.code, {**born.versions, SPARK: "4.1.1"}))
    with pytest.raises(EngineChanged):
        read_committed_batch(home)
    assert isinstance(typed(home, "apply", folder).exception, EngineChanged)
    found = plan(home, folder)
    assert [(each["name"], each["verdict"]) for each in found["differences"]] == [(SPARK, "unknown")]
    accepted = plan(home, folder, "--accept", SPARK)
    assert (accepted["possible"], accepted["anew"]) == (True, True)
    assert "spark 4.1.1" in accepted["rollback"]


def test_an_older_revision_is_brought_to_the_head_in_a_new_lineage(
    home: StreamHome, lineage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, file = write_spec(home), CHECKPOINT_FILE.of(home, lineage)
    kept = file.require()
    assert kept
    file.path.unlink()
    file.write(replace(kept, revision="0000"))
    assert isinstance(typed(home, "upgrade", folder).exception, UnreadableLineage), "no revision leads from there"
    for knows in (checkpoint_record, upgrade_plan):
        monkeypatch.setattr(knows, "revisions_before_head", lambda: ("0000",))
    for refused in (
        lambda: read_committed_batch(home),
        lambda: require_readable_lineage(home, lineage),
    ):
        with pytest.raises(UnreadableLineage, match="Run `sessionizer upgrade clicks`"):
            refused()
    assert isinstance(typed(home, "apply", folder).exception, UnreadableLineage)
    found = plan(home, folder)
    assert [(each["name"], each["verdict"]) for each in found["differences"]] == [(STATE, "migrate")]
    assert (found["possible"], found["anew"]) == (True, True)
    assert [step for step in found["steps"] if step in {"WriteSavepoint", "StartLineage", "Activate"}] == [
        "WriteSavepoint", "StartLineage", "Activate",
    ]  # fmt: skip


def test_a_patch_release_is_taken_in_place_and_noted(home: StreamHome, lineage: str) -> None:
    born, folder = present_fingerprint(), write_spec(home)
    kept = {**born.versions, DELTA: "4.4.99", "java": "17.0.1"}
    write_fingerprint(home, lineage, Fingerprint(born.code, kept, {"spark.sql.shuffle.partitions": "2"}))
    found = plan(home, folder)
    assert [(each["name"], each["verdict"]) for each in found["differences"]] == [(DELTA, "in place")]
    note_programs(home, lineage)
    assert plan(home, folder)["differences"] == []
    noted = known(FINGERPRINT_FILE.of(home, lineage).require())
    assert (noted.versions["java"], noted.configuration) == ("17.0.1", {"spark.sql.shuffle.partitions": "2"})


def test_the_columns_of_the_table_are_read_from_its_log(home: StreamHome, lineage: str) -> None:
    payload = {**clicks_spec()["mapping"]["payload"], "amount": "cast(amount as float)"}
    TYPES_FILE.of(home, lineage).write(KeptTypes("event_time", {"amount": ["float"]}))
    log = Path(home.table_locations(None)["sessions"]) / "_delta_log"
    log.mkdir(parents=True)
    events = {"type": "array", "elementType": {"type": "struct", "fields": [{"name": "amount", "type": "double"}]}}
    schema = {"type": "struct", "fields": [{"name": "events", "type": events}]}
    (log / f"{7:020d}.crc").write_text(json.dumps({"metadata": {"schemaString": json.dumps(schema)}}))
    found = plan(home, write_spec(home, **mapping(payload={**payload, "amount": "cast(amount as int)"})))
    (amount,) = [each for each in found["differences"] if each["name"] == "mapping.payload.amount"]
    assert (amount["verdict"], "has it as double" in amount["reason"]) == ("incompatible", True)


def test_the_bundles_of_the_lineage_and_of_the_watch_are_in_the_plan(home: StreamHome, lineage: str) -> None:
    folder = write_spec(home, trigger_interval="2 seconds")
    assert "bundle" not in typed(home, "upgrade", folder).stdout
    write_fingerprint(home, lineage, replace(present_fingerprint(), bundle="team@3f2a"))
    watch = WatchRecord(run_id="r", try_number=1, bundle="team@9c01")
    WATCH_FILE.of(home).write(watch)
    found = plan(home, folder)
    assert found["bundle"] == {"before": "team@3f2a", "now": "team@9c01"}
    assert "  DAG bundle: team@3f2a → team@9c01" in typed(home, "upgrade", folder).stdout.splitlines()
    WATCH_FILE.of(home).write(replace(watch, ended=True))
    assert plan(home, folder)["digest"] == found["digest"]
    note_programs(home, lineage)
    assert plan(home, folder)["bundle"]["before"] == "team@3f2a", "a command that goes on in place keeps it"


def test_a_spec_that_is_edited_after_the_plan_is_not_carried_out(home: StreamHome, lineage: str) -> None:
    digest = plan(home, write_spec(home, trigger_interval="2 seconds"))["digest"]
    for edited in ({"trigger_interval": "3 seconds"}, {"trigger_interval": "2 seconds", **mapping(key="device")}, {}):
        refused = typed(home, "upgrade", write_spec(home, **edited), "--approve", digest)
        assert isinstance(refused.exception, PlanChanged), edited
        assert refused.exception.differences == (), "the approved plan was not kept"
    assert (read_operations(home), read_desired(home).state) == ([], DesiredState.RUNNING)
    assert plan(home, write_spec(home, trigger_interval="2 seconds"))["digest"] == digest, "as approved once more"


def test_a_request_is_planned_once_and_carried_out_as_it_was_approved(
    home: StreamHome, lineage: str, reviewed: Reviewed
) -> None:
    folder, operation = write_spec(home, trigger_interval="2 seconds"), "20261128T230000-abc123"
    asked = OperationRecord(
        id=operation, verb="upgrade", stream="clicks", request=Upgrade().to_json(), step=OperationStage.REQUESTED,
        begun_at=1, step_at=1,
    )  # fmt: skip
    write_request(home, asked)
    assert typed(home, "carry-out", folder, operation).exit_code == 0
    planned = require_request(home, operation)
    assert (planned.step, planned.possible, planned.lineage_from) == (OperationStage.PLANNED, True, lineage)
    told = plan(home, folder)
    assert (planned.digest, [*planned.differences]) == (told["digest"], told["differences"])
    edited = write_spec(home, trigger_interval="3 seconds")
    shown = typed(home, "carry-out", edited, operation).stdout
    assert planned.text in shown
    assert "waits for approval" in shown
    assert require_request(home, operation) == planned
    write_request(home, replace(planned, step=OperationStage.APPROVED, by="olga"))
    assert planned.text in typed(home, "carry-out", edited, operation, "--plan").stdout
    for words in (("carry-out", edited, operation), ("upgrade", edited, "--approve", planned.digest, "--new-lineage")):
        error = typed(home, *words).exception
        assert isinstance(error, PlanChanged)
        reviewed(", ".join(each for each in error.differences if not each.startswith("spec: ")))
    assert (read_operations(home), read_desired(home).state) == ([], DesiredState.RUNNING)


@pytest.mark.parametrize("verb", ["apply", "upgrade"])
def test_an_approved_plan_that_is_impossible_says_why_once(home: StreamHome, lineage: str, verb: str) -> None:
    folder = write_spec(home, source={**clicks_spec()["source"], "path": "elsewhere"})
    told: dict[str, Any] = json.loads(typed(home, verb, folder, "--json").stdout)
    shown = typed(home, verb, folder)
    assert (shown.exit_code, shown.output.count("sessionizer switch clicks")) == (InvalidSpec.exit_code, 1)
    refused = typed(home, verb, folder, "--approve", told["digest"])
    assert isinstance(refused.exception, InvalidSpec)
    assert "sessionizer switch clicks" in str(refused.exception)
    assert "sessionizer switch clicks" not in refused.output
    assert json.loads(typed(home, verb, folder, "--approve", told["digest"], "--json").stdout) == told


@pytest.mark.parametrize(
    "changes",
    [
        mapping(key="nowhere"),
        mapping(payload={"page": "uuid()"}),
        {"source": {"format": "delta", "path": "feed"}},
        mapping(payload={**clicks_spec()["mapping"]["payload"], "page": "cast(page as int)"}),
    ],
    ids=["unknown column", "varying", "incompatible source", "incompatible type"],
)
@pytest.mark.parametrize("options", [(), ("--json",), ("--deep",)])
def test_nothing_is_offered_that_would_be_refused(
    home: StreamHome, lineage: str, changes: dict[str, Any], options: tuple[str, ...]
) -> None:
    assert lineage
    found = typed(home, "upgrade", write_spec(home, **changes), *options)
    assert isinstance(found.exception, InvalidSpec) or found.exit_code == InvalidSpec.exit_code, found.output
    assert "--approve" not in found.output


def test_an_upgrade_divides_the_state_in_the_same_new_lineage(home: StreamHome, lineage: str) -> None:
    assert lineage
    folder = write_spec(home, rules={**clicks_spec()["rules"], "gap_timeout": "50 seconds"})
    in_place, divided = plan(home, folder), plan(home, folder, "--key-groups", "8", "--partitions", "1")
    assert [in_place["anew"], divided["anew"]] == [False, True]
    found = {each["name"]: (each["now"], each["verdict"]) for each in divided["differences"]}
    assert found.items() >= {"key_groups": (8, "migrate"), "partitions": ("1", "migrate")}.items()
    assert divided["steps"].count("StartLineage") == divided["steps"].count("Stop") == 1
    assert len({in_place["digest"], divided["digest"], plan(home, folder, "--key-groups", "8")["digest"]}) == 3
    few = typed(home, "upgrade", folder, "--partitions", "9")
    assert isinstance(few.exception, InvalidSpec)
    assert few.exception.field == "--partitions"
    same = plan(home, write_spec(home), "--key-groups", str(clicks_spec()["key_groups"]))
    assert (same["needed"], same["differences"]) == (False, [])


def test_the_plan_of_an_apply_needs_no_spark(home: StreamHome, lineage: str) -> None:
    assert lineage
    shown = typed(home, "apply", write_spec(home, trigger_interval="2 seconds"))
    assert shown.exit_code == 0, shown.output
    assert "--approve" in shown.stdout


def test_a_rescale_holds_until_the_file_is_edited(home: StreamHome, lineage: str) -> None:
    record = known(SPEC_FILE.of(home, lineage).require())
    in_file = record.document["key_groups"]
    rescaled = LineageSpec({**record.document, "key_groups": 8}, 1, rescaled_over=in_file)
    SPEC_FILE.of(home, lineage).write(rescaled)
    told = plan(home, write_spec(home))
    assert (told["needed"], told["differences"]) == (False, [])
    told = plan(home, write_spec(home, trigger_interval="2 seconds"))
    assert [each["name"] for each in told["differences"]] == ["trigger_interval"]
    spec = StreamSpec.model_validate({"name": "clicks", **clicks_spec(), "trigger_interval": "2 seconds"})
    after = new_record(home, rescaled.keep_rescale(spec))
    assert (after.document["key_groups"], after.rescaled_over) == (8, in_file)
    told = plan(home, write_spec(home, key_groups=12))
    assert [each["name"] for each in told["differences"]] == ["key_groups"]
