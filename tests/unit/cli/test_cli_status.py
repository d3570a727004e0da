"""``sessionizer status``: what is shown, and the advice below it."""

import json
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.cli.status import COLUMNS, LAST_COLUMNS
from sessionizer.control.lease import acquire
from sessionizer.control.maintenance import record_failure
from sessionizer.control.operation import new_operation
from sessionizer.control.records import supervision_records as records
from sessionizer.control.records.process_records import LAUNCH_FILE, ExitOutcome, ExitRecord, LaunchRecord, write_exit
from sessionizer.deployment.running_spec import new_record
from sessionizer.errors import InvalidSpec, QueryInterrupted, UnknownStream
from sessionizer.home.clock import MINUTE, epoch_ms, moment_text
from sessionizer.lineage.active import begin_drain, end_drain, start_lineage
from sessionizer.lineage.canary.canary_record import read_canary, write_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer.lineage.excluded_ranges import EXCLUDED_RANGES_FILE, ExcludedRange, ExcludedRanges
from sessionizer.lineage.fingerprint import present_fingerprint, write_fingerprint
from sessionizer.state.lineages.table_changes import NotifiedChanges, TableChange
from sessionizer.stream_spec.spec_folder import find_stream
from support.fixtures.reviewed import Reviewed
from support.places import known
from support.processes.fabricated_platform import Platform, beat, make_canary
from support.verbs.begun_restore import write_operation


def below_table(platform: Platform) -> str:
    """The last line of ``status``, below the table, which has ages in it."""
    return platform.call("status").stdout.splitlines()[-1]


def lines_with(word: str, platform: Platform) -> list[str]:
    return [line for line in platform.call("status").stdout.splitlines() if word in line]


def test_all_streams_one_broken(platform: Platform, reviewed: Reviewed) -> None:
    platform.add("never")
    platform.add("broken", "name: broken\n")
    platform.add_driven(
        "visits",
        batch_id=41,
        rows_per_second=12345.6,
        source_lag=1200,
        watermark_ms=epoch_ms() - 90_000,
        open_keys=1_000_001,
        sessions_rows=77,
        late=3,
        quarantined=4,
    )
    result = platform.call("status")
    assert result.exit_code == 0
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    assert lines["never"][1] == "NEVER_STARTED"
    reviewed(result.stderr)
    assert lines["visits"][1:6] == ["RUNNING", "healthy", "41", "12,346", "1,200"]
    assert re.search(r"\(1 m [3-5]\d s\) 1,000,001 77 3 4", " ".join(lines["visits"])), "a slow machine takes seconds"
    assert lines["broken"][1] == "INVALID"
    assert "broken: " in result.stdout
    assert "source is missing" in result.stdout


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_narrow_terminal_gets_fewer_columns_and_no_cut_heading(
    width: int, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.add_driven("a_stream_of_clicks", batch_id=41_000, watermark_ms=epoch_ms() - 95_000, open_keys=1_000_001)
    monkeypatch.setattr("sessionizer.cli.status.table_width", lambda: width)
    result = platform.call("status")
    heading, _, row = [line for line in result.stdout.splitlines() if line.strip()][:3]
    shown = [column for column in COLUMNS if column in heading]
    assert "…" not in heading + row
    assert max(map(len, (heading, row))) <= width
    assert set(COLUMNS) - {*LAST_COLUMNS} <= set(shown)
    assert all(column in shown or column in result.stderr for column in COLUMNS)
    assert (len(shown) == len(COLUMNS)) == (width == 200)


def test_a_canary_says_where_it_stands_and_what_to_do(platform: Platform, reviewed: Reviewed) -> None:
    home = platform.add_prepared("visits")
    lineage = make_canary(home)
    reviewed(lines_with("canary", platform))
    (shown,) = json.loads(platform.call("status", "--json").stdout)
    assert (shown["canary"]["verb"], shown["canary"]["terms"]["batches"]) == ("rescale", 5)
    canary = known(read_canary(home, lineage))
    write_canary(
        home, canary.decided(CanaryOutcome.FAILED, "40% of the 1,000 rows that it read were refused, 0% before")
    )
    reviewed(lines_with("canary", platform))
    accepted = CliRunner().invoke(app, ["promote", "visits", "--home", str(platform.home), "--by", "ann"])
    reviewed(accepted.stdout)
    assert f"ann promoted lineage {lineage}" in platform.call("status").stdout


def test_the_dag_bundle_of_a_stream_is_shown(platform: Platform) -> None:
    home = platform.add_prepared("visits")
    lineage = start_lineage(home)
    assert "bundle" not in below_table(platform)
    write_fingerprint(home, lineage, replace(present_fingerprint(), bundle="team@3f2a"))
    assert below_table(platform) == "visits: runs with DAG bundle team@3f2a"
    (shown,) = json.loads(platform.call("status", "--json").stdout)
    assert shown["bundle"] == "team@3f2a"


def test_json_is_one_list(platform: Platform) -> None:
    platform.add_driven("visits", batch_id=3)
    platform.add("broken", "name: broken\n")
    broken, visits = json.loads(platform.call("status", "--json").stdout)
    assert (broken["state"], visits["state"]) == ("INVALID", "RUNNING")
    assert visits["heartbeat"]["batch_id"] == 3
    assert visits["health"]["findings"] == []
    (alone,) = json.loads(platform.call("status", "visits", "--json").stdout)
    assert alone["stream"] == "visits"


def test_a_broken_spec_hides_no_driver_from_those_who_name_the_stream(platform: Platform) -> None:
    platform.add("visits", "name: [")
    platform.drive("visits", batch_id=3)
    result = platform.call("status", "visits")
    assert (result.exit_code, "INVALID" in result.stdout) == (InvalidSpec.exit_code, True)
    assert "driver-1" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("visits: ")
    (shown,) = json.loads(platform.call("status", "visits", "--json").stdout)
    assert (shown["state"], shown["health"]["rule"]) == ("INVALID", "invalid_spec")


def test_a_dead_driver_with_a_broken_spec_is_down_and_says_why(platform: Platform) -> None:
    platform.add("visits", "name: [")
    lease, home = platform.drive("visits", batch_id=3)
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.FAILED, error_type="memory", message="heap"))
    assert below_table(platform).startswith("visits: down: ")
    assert "visits.yaml" in below_table(platform)


def test_a_broken_spec_does_not_hide_the_command_that_has_the_stream(platform: Platform) -> None:
    """The file was broken after its approval, and the command failed."""
    home = platform.add("visits", "name: [")
    home.prepare()
    record = new_operation(home, "apply", "0123456789abcdef", "olga (Airflow)", (start_lineage(home), 4))
    write_operation(home, record.failed(RuntimeError("heap")))
    records.write_desired(home, records.DesiredState.MAINTENANCE, by="olga (Airflow)", why="apply of the stream")
    shown = platform.call("status").stdout
    assert "visits.yaml" in shown
    assert "carry_out" in shown
    assert record.command in shown


def test_a_broken_spec_does_not_hide_what_the_supervisor_gave_up(platform: Platform) -> None:
    home = platform.add("visits", "name: [")
    home.prepare()
    records.write_desired(home, records.DesiredState.RUNNING, by="olga", why="")
    records.SUPERVISION_FILE.of(home).write(
        records.SupervisionRecord(given_up=True, last_failure="heap", remedy="more memory")
    )
    assert "more memory" in platform.call("status").stdout


def test_what_a_driver_goes_on_in_spite_of_is_shown_while_it_lives(platform: Platform, reviewed: Reviewed) -> None:
    _, home = platform.add_driven("visits", batch_id=3, warning="the table of timeouts cannot be read")
    reviewed(below_table(platform))
    beat(home, batch_id=4)
    assert "warning" not in platform.call("status").stdout


def test_the_stale_limit_is_the_same_for_a_long_trigger_interval(platform: Platform) -> None:
    """It is 5 minutes here: a driver that waits for it beats."""
    platform.add_driven("visits")
    now = epoch_ms()
    platform.fall_silent("visits", since=now - 60_000)
    assert "RUNNING" in platform.call("status", "visits").stdout
    platform.fall_silent("visits", since=now - 200_000)
    result = platform.call("status", "visits")
    assert "STALLED" in result.stdout
    assert "no sign for 3 m " in result.stdout


def test_a_failure_is_explained(platform: Platform, reviewed: Reviewed) -> None:
    home = platform.add_prepared("visits")
    acquire(home, "driver-1")
    record_failure(home, "driver-1", QueryInterrupted("visits", "disk_full", "No space left on device\nat java"))
    result = platform.call("status")
    assert "FAILED" in result.stdout
    reviewed(below_table(platform))
    assert "free some space" in result.stdout
    assert "at java" not in result.stdout


def test_only_an_expressed_wish_is_missed(platform: Platform, reviewed: Reviewed) -> None:
    lease, home = platform.add_driven("visits")
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    assert "wants" not in platform.call("status").stdout
    records.write_desired(home, records.DesiredState.RUNNING, by="airflow", why="test")
    reviewed(below_table(platform))


def test_a_pending_restore_is_shown_with_how_to_resume_it(platform: Platform, reviewed: Reviewed) -> None:
    home = platform.add_prepared("clicks")
    record = new_operation(home, "restore", "0123456789abcdef", "al", ("a", 1), savepoint="middle")
    write_operation(home, replace(record, id="20261128T230000-abc123"))
    reviewed(below_table(platform))


def test_damage_is_shown(platform: Platform) -> None:
    _, home = platform.add_driven("visits")
    (home.control / "heartbeat.json").write_text("{")
    assert "is damaged: not JSON" in platform.call("status").stdout


def test_an_unknown_stream(platform: Platform) -> None:
    assert isinstance(platform.call("status", "visits").exception, UnknownStream)


def test_while_a_command_is_not_over_no_other_is_offered(platform: Platform) -> None:
    """Both `upgrade` and `apply` are refused meanwhile."""
    home = platform.add_prepared("visits")
    start_lineage(home, spec=new_record(home, find_stream(platform.streams, "visits")))
    platform.add("visits", (platform.streams / "visits.yaml").read_text() + "rules:\n  gap_timeout: 5 minutes\n")
    offered = ("sessionizer apply visits", "sessionizer upgrade visits")
    assert all(command in platform.call("status").stdout for command in offered)
    write_operation(home, new_operation(home, "rescale", "0123456789abcdef", "al", ("a", 1)))
    shown = platform.call("status").stdout
    assert "sessionizer abandon visits" in shown
    assert not any(command in shown for command in offered)


def test_a_drained_stream_is_offered_nothing_that_it_refuses(platform: Platform) -> None:
    """The stream is over: a driver is refused, and so is a command that needs open sessions."""
    lease, home = platform.add_driven("visits")
    lineage = start_lineage(home, spec=new_record(home, find_stream(platform.streams, "visits")))
    platform.add("visits", (platform.streams / "visits.yaml").read_text() + "rules:\n  gap_timeout: 5 minutes\n")
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    records.write_desired(home, records.DesiredState.RUNNING, by="DAG visits.start", why="test")
    offered = [f"sessionizer {command} visits" for command in ("run", "apply", "upgrade")]
    assert all(command in platform.call("status").stdout for command in offered)
    begin_drain(home, lineage)
    end_drain(home, lineage)
    shown = platform.call("status").stdout
    assert "visits: drained: over since" in shown
    assert not any(command in shown for command in offered)


def test_a_stopped_stream_says_who_stopped_it_and_how_to_start_it(platform: Platform, reviewed: Reviewed) -> None:
    lease, home = platform.add_driven("visits")
    why = "task visits.supervise.supervise was marked success"
    desired = records.write_desired(home, records.DesiredState.STOPPED, by="a user of Airflow", why=why)
    assert "To start it" not in platform.call("status").stdout, "it runs so far"
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    reviewed(below_table(platform), moment=moment_text(desired.at))
    write_operation(home, new_operation(home, "rescale", "0123456789abcdef", "al", ("a", 1)))
    assert "To start it" not in platform.call("status").stdout, "a start would be refused"


def test_a_stream_that_was_stopped_after_its_driver_died_is_resumed_by_a_start_alone(platform: Platform) -> None:
    """A mark on the supervising task while it waits to start the next driver."""
    lease, home = platform.add_driven("visits")
    records.WATCH_FILE.of(home).write(records.WatchRecord(run_id="one", try_number=1, streams=str(platform.streams)))
    records.write_desired(home, records.DesiredState.RUNNING, by="olga", why="")
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.FAILED, error_type="memory", message="heap"))
    assert "To resume: unpause" in platform.call("status").stdout
    records.write_desired(home, records.DesiredState.STOPPED, by="a user of Airflow", why="marked")
    shown = platform.call("status").stdout
    assert "To resume: unpause" not in shown
    assert "visits.start" in shown


def test_a_stream_that_airflow_supervises_is_not_run_by_hand(platform: Platform, reviewed: Reviewed) -> None:
    """A restore may end while the triggerer is away. Without a failed driver the supervisor has no record."""
    lease, home = platform.add_driven("visits")
    write_exit(home, ExitRecord(lease.uid, epoch_ms(), ExitOutcome.STOPPED))
    desired = records.write_desired(home, records.DesiredState.RUNNING, by="admin (Airflow)", why="restore 1 is over")
    assert "sessionizer run visits" in platform.call("status").stdout
    records.WATCH_FILE.of(home).write(records.WatchRecord(run_id="one", try_number=1, streams=str(platform.streams)))
    records.HEALTH_FILE.of(home).write(records.Health(worked_at=epoch_ms(), looked_at=epoch_ms()))
    reviewed(below_table(platform))
    records.HEALTH_FILE.of(home).write(records.Health(worked_at=epoch_ms(), looked_at=epoch_ms() - 6 * MINUTE))
    shown = platform.call("status").stdout
    assert "wants it RUNNING" in shown
    assert "no supervisor" in shown
    records.DESIRED_FILE.of(home).write(replace(desired, at=desired.at - 6 * MINUTE))
    records.HEALTH_FILE.of(home).write(records.Health(worked_at=epoch_ms(), looked_at=epoch_ms()))
    reviewed(below_table(platform))


def test_a_changed_spec_is_shown_until_it_is_applied(platform: Platform, reviewed: Reviewed) -> None:
    home = platform.add_prepared("visits")
    start_lineage(home, spec=new_record(home, find_stream(platform.streams, "visits")))
    assert "spec changed" not in platform.call("status").stdout
    text = (platform.streams / "visits.yaml").read_text()
    platform.add("visits", text.replace("key: u", "key: lower(u)") + "rules:\n  gap_timeout: 5 minutes\n")
    shown = platform.call("status").stdout
    assert "visits: spec changed: mapping.key, rules.gap_timeout" in shown
    reviewed(shown.splitlines()[6:])
    (status,) = json.loads(platform.call("status", "--json").stdout)
    assert status["spec_changes"] == [
        {"field": "mapping.key", "before": "u", "now": "lower(u)"},
        {"field": "rules.gap_timeout", "before": "30 minutes", "now": "5 minutes"},
    ]


def test_a_word_that_no_other_line_explains_has_a_line_of_its_own(platform: Platform) -> None:
    _, home = platform.add_driven("visits", batch_id=1)
    LAUNCH_FILE.of(home).write(LaunchRecord(uid="driver-1", at=epoch_ms() - 1, log="a.log"))
    assert below_table(platform).strip() == ""
    records.PAUSE_FILE.of(home).write(records.PauseRecord(paused=True, at=epoch_ms()))
    assert below_table(platform).startswith("visits: degraded: ")
    assert "unpause visits.supervise" in below_table(platform)


def test_a_drained_stream_is_over(platform: Platform) -> None:
    home = platform.add_prepared("visits")
    lineage = start_lineage(home)
    begin_drain(home, lineage)
    assert "drained" not in platform.call("status").stdout
    end_drain(home, lineage)
    assert "visits: drained: over since 20" in platform.call("status").stdout
    (status,) = json.loads(platform.call("status", "--json").stdout)
    assert status["drained"]["over_at"] > 0


def test_a_lineage_that_leaves_something_out_says_so(platform: Platform, reviewed: Reviewed) -> None:
    home = platform.add_prepared("visits")
    lineage = start_lineage(home)
    assert "leaves out" not in platform.call("status").stdout
    EXCLUDED_RANGES_FILE.of(home, lineage).write(ExcludedRanges((ExcludedRange("a*.json", files=("file:/a1.json",)),)))
    reviewed(below_table(platform))
    (status,) = json.loads(platform.call("status", "--json").stdout)
    assert status["excluded_ranges"] == ["a*.json (1 file)"]


def test_rows_that_others_changed_are_shown(platform: Platform) -> None:
    home = platform.add_prepared("visits")
    record = NotifiedChanges(home.lineage(start_lineage(home)).table_changes)
    change = TableChange("sessions", 7, "DELETE", 1_790_000_000_000)
    record.note({"/lake/sessions": 7}, [change])
    assert "DELETE in sessions, its version 7" in platform.call("status").stdout
    (status,) = json.loads(platform.call("status", "--json").stdout)
    assert status["table_changes"] == [change.to_json()]
