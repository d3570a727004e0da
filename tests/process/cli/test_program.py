"""The program as its own process: what it loads, and an output that is closed, full or only ASCII."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sessionizer.causes.cause import HUNG
from sessionizer.cli.app import app
from sessionizer.cli.terminal import INTERRUPTED
from sessionizer.control.lease import acquire
from sessionizer.control.records.operation_record import read_operations
from sessionizer.control.records.supervision_records import (
    SUPERVISION_FILE,
    DesiredState,
    SupervisionRecord,
    read_desired,
    write_desired,
)
from sessionizer.errors import DiskFull, NoWorkingFolder, ReleaseBroken
from sessionizer.home.clock import HOUR, epoch_ms
from sessionizer.home.names import quoted_command
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import PYTHON_VARIABLE, require_driver_loads
from sessionizer.lineage.fingerprint import RELEASE, read_fingerprint
from support.checkpoints.fabricated_checkpoints import fabricate
from support.places import MAIN, REPOSITORY, known
from support.processes.fabricated_platform import SPEC, Platform
from support.processes.ports import eventually
from support.releases.cut_release import RELEASES, unpack_release
from support.releases.environments import environment_with_release, packages_of
from support.streams.drawn_logs import drawn_cases
from support.streams.stage import clicks_spec


def main(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, MAIN, *words], capture_output=True, text=True, check=False, **options)


def java_that(folder: Path, script: str) -> dict[str, str]:
    """Our environment with a program in place of Java."""
    java = folder / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return {**os.environ, "JAVA_HOME": str(folder / "jdk")}


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("sessionizer.cli.app", {"pyspark", "pandas", "delta"}),
        (
            "sessionizer.stream_spec.spec_folder, sessionizer.stream_spec.decisions, sessionizer.stream_spec.spec_text",
            {"pyspark", "airflow", "pandas", "numpy", "pyarrow"},
        ),
    ],
)
def test_help_and_the_reading_of_specs_load_nothing_heavy(modules: str, heavy: set[str]) -> None:
    program = f"import sys, {modules}; print(*{{name.split('.')[0] for name in sys.modules}})"
    paths = {"PYTHONPATH": str(REPOSITORY / "jobs")}
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=paths)
    assert not heavy & set(loaded.stdout.split())


def test_a_closed_pipe_is_no_traceback(platform: Platform) -> None:
    platform.add("visits")
    command = f"{sys.executable} {MAIN} spec schema | head -1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("{\n", "")


AIRFLOWS = {
    "AIRFLOW__CORE__FERNET_KEY": "hunter2",
    "AIRFLOW_CONN_WAREHOUSE": "hunter2",
    "_AIRFLOW_PROCESS_CONTEXT": "server",
    "SESSIONIZER_NOTIFIER_ARGUMENTS": "hunter2",
}


def test_a_jvm_has_nothing_of_airflows(tmp_path: Path) -> None:
    environment = java_that(tmp_path, f'env > "{tmp_path}/seen"\nexit 1') | AIRFLOWS | {"AWS_REGION": "eu"}
    streams = tmp_path / "streams"
    streams.mkdir()
    (streams / "visits.yaml").write_text(SPEC.format(name="visits"))
    places = ["--streams", str(streams), "--home", str(tmp_path / "home")]
    ended = main("spec", "check", "--deep", *places, env=environment, timeout=120)
    assert ended.returncode == 67
    assert "error: " in ended.stderr
    assert "Traceback" not in ended.stderr
    seen = (tmp_path / "seen").read_text()
    assert "AWS_REGION=eu" in seen
    assert "hunter2" not in seen
    assert "AIRFLOW_PROCESS_CONTEXT" not in seen


def test_ctrl_c_while_spark_starts_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    # it answers nobody, and ends with the command, as a JVM does
    environment = java_that(tmp_path, f'touch "{tmp_path}/begun"\nexec cat')
    command = [sys.executable, MAIN, "spec", "check", "--deep", "--streams", str(REPOSITORY / "dags/streams")]
    begun = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    eventually((tmp_path / "begun").exists)
    os.killpg(begun.pid, signal.SIGINT)
    _, said = begun.communicate(timeout=180)
    assert begun.returncode == INTERRUPTED
    assert "Traceback" not in said
    assert "sessionizer status" in said


HALF_IMPORTED = """
import os, signal, sys
sys.argv = ["sessionizer", "find", "clicks", "--home", "/x"]
from sessionizer.cli.app import app
from sessionizer.cli.terminal import _end_at_once
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "sessionizer.fleet.stream_view":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, _end_at_once)
sys.meta_path.insert(0, Interrupting())
import sessionizer.fleet.streams
"""
"""The line on Ctrl-C names `status` for the home that was typed, which imports that command."""


def test_ctrl_c_in_the_middle_of_an_import_ends_the_command_all_the_same() -> None:
    ended = subprocess.run([sys.executable, "-c", HALF_IMPORTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, "sessionizer status" in ended.stderr) == (INTERRUPTED, True), ended.stderr


@pytest.mark.parametrize("module", ["typer", "sessionizer.home.roots"])
def test_ctrl_c_while_the_modules_are_imported_leaves_no_traceback(module: str) -> None:
    command = [sys.executable, "-X", "importtime", MAIN, "status"]
    # a small pipe holds it up until its lines are read: a busy machine else reads them when it has ended
    begun = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, pipesize=4096)
    assert any(line.split("|")[-1].strip() == module for line in known(begun.stderr))
    os.killpg(begun.pid, signal.SIGINT)
    _, said = begun.communicate(timeout=180)
    assert "Traceback" not in said
    assert begun.returncode == -signal.SIGINT


ROWS = pa.table({"reason": ["malformed", "malformed", "null_key"], "raw": ["{", "[", "{}"]})


@pytest.mark.parametrize("reader", ["duckdb", "polars"])
def test_the_pasted_query_answers(platform: Platform, reader: str) -> None:
    home = platform.add("visits")
    home.prepare()
    for _ in range(2):
        write_deltalake(str(home.table("quarantine")), ROWS, mode="append")
    found = {table["name"]: table for table in json.loads(platform.call("tables", "visits", "--json").stdout)["tables"]}
    assert found["quarantine"]["version"] == 1
    assert found["sessions"]["version"] is None
    assert f"delta.`{home.table('quarantine')}`" in found["quarantine"]["spark_sql"]
    query = ["bash", "-c", found["quarantine"][reader]]
    answer = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    assert "malformed" in answer
    assert "4" in answer
    assert found["quarantine"]["duckdb"] in platform.call("tables", "visits").stdout


PROGRAM = "sessionizer() {{ printf '%s\\0' \"$@\"; }}; {}"


@settings(max_examples=60)
@given(st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"]), max_size=30))
@example("x; touch /tmp/pasted #")
@example("`touch /tmp/pasted`")
@example("$(touch /tmp/pasted)'\"")
@example("--open")
def test_a_pasted_command_has_the_words_that_it_was_made_of(value: str) -> None:
    text = quoted_command("find", "clicks", f"--event={value}")
    command = text.split("`")
    assert len(command) == 3, "a page shows what is between two backticks as a command"
    done = subprocess.run(["sh", "-c", PROGRAM.format(command[1])], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == ["find", "clicks", f"--event={value}"]


def _take_the_lease_and_die(root: Path) -> None:
    acquire(StreamHome(root), "driver-1")


@pytest.fixture
def vanished(platform: Platform) -> StreamHome:
    """A stream whose driver has died with the lease."""
    home = platform.add("visits")
    home.prepare()
    driver = multiprocessing.get_context("fork").Process(target=_take_the_lease_and_die, args=(home.root,))
    driver.start()
    driver.join()
    return home


@pytest.mark.usefixtures("vanished")
def test_a_vanished_driver_is_noticed(platform: Platform) -> None:
    result = platform.call("status")
    assert "VANISHED" in result.stdout
    assert "To resume: `sessionizer run visits`" in result.stdout


def test_a_hang_that_was_ended_keeps_its_cause_when_the_wait_is_over(platform: Platform, vanished: StreamHome) -> None:
    record = SupervisionRecord(
        failures=1, last_failure="driver driver-1 was replaced: silent for 160 s", cause="hung", remedy=HUNG.remedy,
        counted_uid="driver-1", last_failure_ms=epoch_ms() - HOUR, restart_at=epoch_ms() - HOUR,
    )  # fmt: skip
    SUPERVISION_FILE.of(vanished).write(record)
    shown = platform.call("status").stdout
    assert f"driver-1 was replaced: silent for 160 s. Another one follows → {HUNG.remedy}" in shown


@pytest.mark.parametrize("module", ["cli/app.py", "core/key_group/merging.py"])
def test_an_upgrade_to_a_release_that_does_not_load_leaves_the_stream_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    stage = unpack_release(RELEASES / "0.2.0", tmp_path / "stage")
    home, lineage = stage.stream_home, str(stage.lineage)
    write_desired(home, DesiredState.RUNNING, by="ops", why="")
    python = environment_with_release(tmp_path / "new", "9.0.0")
    monkeypatch.setenv(PYTHON_VARIABLE, str(python))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    require_driver_loads()
    (packages_of(tmp_path / "new") / "sessionizer" / module).write_text("import no_such_package\n")
    command = ["upgrade", stage.name, "--home", str(stage.home), "--streams", str(stage.streams)]
    plan = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert plan["possible"]
    refused = CliRunner().invoke(app, [*command, "--approve", plan["digest"]])
    assert isinstance(refused.exception, ReleaseBroken)
    assert "no_such_package" in refused.exception.said
    assert (read_desired(home).state, read_operations(home)) == (DesiredState.RUNNING, [])
    assert read_fingerprint(home, lineage).versions[RELEASE] == "0.2.0"


WITHOUT_IDENTITY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    folder = tmp_path / "our specs"
    folder.mkdir()
    write_spec(folder, "user_id")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, *AUTHOR, "commit", "-qm", "first")
    return folder


def write_spec(folder: Path, key: str) -> None:
    spec = {"name": "clicks", **clicks_spec(), "mapping": {**clicks_spec()["mapping"], "key": key}}
    (folder / "clicks.yaml").write_text(yaml.safe_dump(spec))


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, env={**os.environ, **WITHOUT_IDENTITY})


def diff(specs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return main("diff", "--streams", str(specs), *words, cwd=specs)


def test_a_changed_key_is_found_against_the_commit_before(specs: Path) -> None:
    assert diff(specs, "--against", "HEAD").returncode == 0
    write_spec(specs, "device")
    found = diff(specs, "clicks", "--against", "HEAD", "--json")
    assert found.returncode == 10, found.stderr
    (told,) = json.loads(found.stdout)
    assert [(each["name"], each["verdict"]) for each in told["differences"]] == [("mapping.key", "partial")]
    assert told["unaccepted"] == ["mapping.key"]
    assert {"open sessions", "deciding code"} <= set(told["unseen"])
    (specs.parent / "copy").mkdir()
    write_spec(specs.parent / "copy", "device")
    assert diff(specs, "--against", str(specs.parent / "copy")).returncode == 0


def test_a_broken_spec_is_an_error_and_no_stream_that_came_or_went(specs: Path) -> None:
    (specs / "clicks.yaml").write_text("name: [")
    for words in (["--against", "HEAD"], ["clicks", "--against", "HEAD"], ["--against", str(specs)]):
        found = diff(specs, *words)
        assert (found.returncode, found.stdout) == (11, ""), found.stdout
        assert "the YAML is broken" in found.stderr
    git(specs, *AUTHOR, "commit", "-qam", "broken")
    write_spec(specs, "user_id")
    found = diff(specs, "--against", "HEAD")
    assert (found.returncode, found.stdout) == (11, "")


def test_a_checkout_behind_a_link_and_a_name_of_any_letters_are_read(specs: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(specs.parent)
    assert diff(tmp_path / "link" / specs.name, "--against", "HEAD").returncode == 0
    git(specs, "mv", str(specs), str(tmp_path / "spécs"))
    git(tmp_path, *AUTHOR, "commit", "-qm", "moved")
    assert main("diff", "--streams", str(tmp_path / "spécs"), "--against", "HEAD", cwd=tmp_path).returncode == 0


def test_a_link_out_of_the_commit_is_refused(specs: Path) -> None:
    (specs / "other.yaml").symlink_to("/etc/hostname")
    git(specs, "add", ".")
    git(specs, *AUTHOR, "commit", "-qm", "link")
    found = diff(specs, "--against", "HEAD")
    assert found.returncode == 2
    assert "other.yaml" in found.stderr


@pytest.mark.parametrize("ref", ["nowhere", "--output=/tmp/x", "HEAD:our specs"])
def test_an_unusable_ref_is_refused_with_a_code_of_its_own(specs: Path, ref: str) -> None:
    found = diff(specs, f"--against={ref}")
    assert found.returncode == 2
    assert "git ref" in found.stderr


@pytest.mark.parametrize(
    ("streams", "kinds", "code"),
    [
        (["clicks", "visits"], {"clicks": None, "visits": "stream added"}, 0),
        (["visits"], {"clicks": "stream renamed", "visits": "stream added"}, 11),
        ([], {"clicks": "stream removed"}, 10),
    ],
)
def test_a_spec_that_came_or_went_is_a_difference(
    specs: Path, streams: list[str], kinds: dict[str, str | None], code: int
) -> None:
    text = yaml.safe_load((specs / "clicks.yaml").read_text())
    (specs / "clicks.yaml").unlink()
    for name in streams:
        (specs / f"{name}.yaml").write_text(yaml.safe_dump({**text, "name": name}))
    found = diff(specs, "--against", "HEAD", "--json")
    assert found.returncode == code, found.stderr
    told = json.loads(found.stdout)
    assert {each["stream"]: next((one["kind"] for one in each["differences"]), None) for each in told} == kinds


def test_the_folder_of_specs_of_a_checkout_stands_for_the_checkout() -> None:
    folder = REPOSITORY / "dags" / "streams"
    found = diff(folder, "clicks", "--against", str(folder), "--json")
    assert found.returncode == 0, found.stderr
    assert "deciding code" not in json.loads(found.stdout)[0]["unseen"]


def test_savepoints_in_a_vault_that_is_read_only_are_verified_and_compared(
    platform: Platform, small_disk: Path
) -> None:
    platform.add("clicks")
    for each in ("before-release", "after-release"):
        fabricate(small_disk / "clicks", each)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    places = ("--in", str(small_disk), "--home", str(platform.home))
    verified = main("savepoint", "verify", "clicks", "before-release", *places)
    assert verified.returncode == 0, verified.stderr
    compared = main("savepoint", "diff", "clicks", "before-release", "after-release", *places)
    assert compared.returncode == 0, compared.stderr


COMMANDS: Final = (("status",), ("status", "--json"), ("timeline", "clicks"), ("tables", "clicks"), ("--help",))
OUTPUTS: Final = {"closed": ">&-", "all closed": "<&- >&- 2>/dev/null", "full": ">/dev/full", "ASCII": "| cat"}


def run(platform: Platform, words: tuple[str, ...], redirected: str) -> tuple[int, str]:
    """Run a command through a shell, which redirects its output. Return its code and what it says on stderr."""
    places = {"SESSIONIZER_HOME": str(platform.home), "SESSIONIZER_STREAMS": str(platform.streams)}
    variables = {**os.environ, **places, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    line = ["bash", "-c", f'set -o pipefail; "$@" {redirected}', "bash", sys.executable, MAIN, *words]
    done = subprocess.run(line, env=variables, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(("words", "output"), drawn_cases(product(COMMANDS, OUTPUTS), 6))
def test_no_command_fails_of_its_output(words: tuple[str, ...], output: str, platform: Platform) -> None:
    platform.add("clicks")
    platform.drive("clicks", batch_id=7)[0].release()
    code, said = run(platform, words, OUTPUTS[output])
    assert "Traceback" not in said
    assert code == (DiskFull.exit_code if output == "full" else 0), said


def test_a_deleted_folder_is_told(tmp_path: Path) -> None:
    line = ("sh", "-c", f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} {MAIN} status")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SESSIONIZER_")}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == NoWorkingFolder.exit_code, done.stderr
    assert "remedy: choose a folder" in done.stderr
