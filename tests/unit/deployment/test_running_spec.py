"""Which spec a driver runs by: a crash deploys nothing, a person's word deploys what they saw, once."""

from pathlib import Path
from typing import Any

import pytest

from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.deployment.running_spec import (
    EDITED_AGAIN,
    RunningSpec,
    approve_spec,
    choose_spec,
    new_record,
    note_spec,
    pending_changes,
    pending_line,
    require_whole,
)
from sessionizer.errors import DamagedFile, InvalidSpec
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import active_lineage, start_lineage
from sessionizer.lineage.batch_log import OpenSessions
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.stream_spec.decisions import Change
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import SpecFile
from support.faults.bad_clicks import changed

BROKEN = SpecFile("visits", problem=InvalidSpec("mapping.key", None, "a value"))
OTHER_GAP = Change("rules.gap_timeout", "30 minutes", "31 minutes")


def spec(**changes: Any) -> StreamSpec:
    return StreamSpec.model_validate(changed({path.replace("__", "/"): value for path, value in changes.items()}))


def file(**changes: Any) -> SpecFile:
    return SpecFile("visits", spec=spec(**changes))


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    home = StreamHome.of(tmp_path, "visits")
    home.prepare()
    start_lineage(home, spec=new_record(home, spec()))
    return home


def start(home: StreamHome, now: SpecFile, *, apply: bool = False) -> RunningSpec:
    running = choose_spec(home, now, apply=apply)
    lineage = active_lineage(home)
    assert lineage
    note_spec(home, lineage, running)
    return running


def approve(home: StreamHome, folder: Path, **changes: Any) -> None:
    """What the form of ``visits.start`` does with its box checked."""
    folder.mkdir(exist_ok=True)
    (folder / "visits.yaml").write_text(spec(**changes).model_dump_json(by_alias=True))
    given = approve_spec(home, folder, "visits").fingerprint
    write_desired(home, DesiredState.RUNNING, by="DAG visits.start", why="", approved=given)


def begin_a_batch(home: StreamHome) -> None:
    OpenSessions(home.lineage(active_lineage(home) or "").open_sessions).learn(0, [])


def test_a_first_start_takes_the_file(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "visits")
    assert choose_spec(home, file(), apply=False).spec == spec()
    with pytest.raises(InvalidSpec):
        choose_spec(home, BROKEN, apply=False)


def test_a_restart_after_a_crash_deploys_nothing(home: StreamHome) -> None:
    for _ in range(2):
        running = start(home, file(rules__gap_timeout="31 minutes", description="other"))
        assert running.spec == spec()
        assert running.pending == (OTHER_GAP,)
        assert "spec changed: rules.gap_timeout" in running.lines()[0]


def test_what_only_people_read_is_no_change(home: StreamHome) -> None:
    assert start(home, file(description="other")).lines() == []


def test_what_was_applied_is_the_lineages_own(home: StreamHome) -> None:
    running = start(home, file(rules__gap_timeout="31 minutes"), apply=True)
    assert running.spec == spec(rules__gap_timeout="31 minutes")
    assert running.lines() == ["spec applied: rules.gap_timeout: '30 minutes' → '31 minutes'"]
    assert start(home, file(rules__gap_timeout="31 minutes")).lines() == []
    assert start(home, file()).spec == spec(rules__gap_timeout="31 minutes")


def test_an_approval_is_of_one_spec_and_used_up_by_it(home: StreamHome, tmp_path: Path) -> None:
    approve(home, tmp_path / "streams", rules__gap_timeout="31 minutes")
    edited = start(home, file(rules__gap_timeout="32 minutes"))
    assert edited.spec == spec()
    assert EDITED_AGAIN in edited.lines()
    assert start(home, file(rules__gap_timeout="31 minutes")).applied == (OTHER_GAP,)
    start(home, file(rules__gap_timeout="32 minutes"), apply=True)
    reverted = start(home, file(rules__gap_timeout="31 minutes"))
    assert reverted.spec == spec(rules__gap_timeout="32 minutes")
    assert reverted.remark is None


def test_an_approval_that_is_given_while_a_driver_starts_is_the_next_drivers(home: StreamHome, tmp_path: Path) -> None:
    """The driver chooses its spec before it starts Spark, and records it after that."""
    approve(home, tmp_path / "streams", rules__gap_timeout="31 minutes")
    running = choose_spec(home, file(rules__gap_timeout="31 minutes"), apply=False)
    approve(home, tmp_path / "streams", rules__gap_timeout="32 minutes")
    note_spec(home, active_lineage(home) or "", running)
    assert start(home, file(rules__gap_timeout="32 minutes")).spec == spec(rules__gap_timeout="32 minutes")


def test_an_approval_that_is_given_during_the_first_start_is_the_next_drivers(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "visits")
    home.prepare()
    running = choose_spec(home, file(), apply=False)
    approve(home, tmp_path / "streams", rules__gap_timeout="32 minutes")
    start_lineage(home, spec=running.new_record())
    assert start(home, file(rules__gap_timeout="32 minutes")).spec == spec(rules__gap_timeout="32 minutes")


def test_a_later_wish_takes_an_approval_back(home: StreamHome, tmp_path: Path) -> None:
    approve(home, tmp_path / "streams", rules__gap_timeout="31 minutes")
    write_desired(home, DesiredState.STOPPED, by="ops", why="")
    assert start(home, file(rules__gap_timeout="31 minutes")).spec == spec()


def test_a_broken_file_keeps_no_stream_from_going_on(home: StreamHome) -> None:
    running = start(home, BROKEN)
    assert running.spec == spec()
    assert "mapping.key" in running.lines()[0]
    with pytest.raises(InvalidSpec):
        start(home, BROKEN, apply=True)


def test_a_lineage_cut_off_before_it_kept_anything_takes_the_file(home: StreamHome) -> None:
    SPEC_FILE.of(home, active_lineage(home) or "").path.unlink()
    assert start(home, file(key_groups=5)).spec == spec(key_groups=5)
    assert start(home, file()).spec == spec(key_groups=5)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 4}', '{"format": 3, "spec": 7, "since": 1, "desired_at": 0}'])
def test_a_damaged_record_is_not_guessed_but_shown_as_nothing(home: StreamHome, text: str) -> None:
    SPEC_FILE.of(home, active_lineage(home) or "").path.write_text(text)
    with pytest.raises(DamagedFile):
        start(home, file(), apply=True)
    assert pending_changes(home, spec(key_groups=5)) == ()


@pytest.mark.parametrize(
    ("field", "changes"), [("key_groups", {"key_groups": 5}), ("source.path", {"source__path": "elsewhere"})]
)
def test_what_the_lineage_cannot_take_is_refused_before_anybody_is_stopped(
    home: StreamHome, tmp_path: Path, field: str, changes: dict[str, Any]
) -> None:
    approve(home, tmp_path / "streams", **changes)
    begin_a_batch(home)
    with pytest.raises(InvalidSpec, match=field):
        approve(home, tmp_path / "streams", **changes)


DIVIDED = "Use `sessionizer rescale visits` for key_groups, or keep 16: write it into the file"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            [Change("source.topic", "a", "b"), OTHER_GAP],
            "Use `sessionizer switch visits --start-at WHERE` for source.topic",
        ),
        (
            [Change("key_groups", 16, 32), Change("source.path", "a", "b")],
            f"{DIVIDED}. Use `sessionizer switch visits --start-at WHERE` for source.path",
        ),
        (
            [Change("mapping.key", "a", "b"), Change("mapping.client", "a", "b")],
            "Use `sessionizer upgrade visits` for mapping.key, mapping.client",
        ),
    ],
)
def test_what_no_start_can_apply_names_the_verb_that_does(changes: list[Change], said: str) -> None:
    line = pending_line("visits", tuple(changes))
    assert line.endswith(said)
    assert "visits.start" not in line, "it would refuse the change"


@pytest.mark.parametrize(
    ("field", "is_taken"),
    [
        # which records are read, and how they are fetched
        ("source.options.kafka.isolation.level", False),
        ("source.options.kafka.Isolation.Level", False),
        ("source.options.kafka.max.poll.records", True),
        ("source.options.maxOffsetsPerTrigger", True),
        ("source.options_from_environment.kafka.sasl.jaas.config", True),
        ("source.bootstrap_servers", True),
        ("source.starting_offsets", True),
        ("trigger_interval", True),
        ("source.columns", False),
        ("mapping.key", False),
        ("rules.gap_timeout", False),
        ("sink.path", False),
        ("rules.of_a_later_release", False),
    ],
)
def test_a_half_written_batch_keeps_what_its_rows_are(field: str, is_taken: bool) -> None:
    change = Change(field, None, "5")
    require_whole([change], None)
    if is_taken:
        require_whole([change], 7)
        return
    with pytest.raises(InvalidSpec) as caught:
        require_whole([change], 7)
    assert caught.value.field == field
