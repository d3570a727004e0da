"""Configurations that must not start, through the real program: one clear message, its exit code, nothing begun."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessionizer.errors import (
    DuplicateStream,
    InvalidSpec,
    SessionizerError,
    SourceForbidden,
    SourceUnreachable,
    TerminalError,
    UnwritablePath,
)
from sessionizer.launch.driver_environment import PLAIN_SPARK
from support.places import REPOSITORY
from support.processes.driver_process import environment
from support.processes.kafka_broker import KafkaBroker

PROGRAM = REPOSITORY / "jobs" / "main.py"
GOOD = {
    "name": "visits",
    "source": {"format": "files", "path": "in", "encoding": "json", "columns": "u string, ts bigint, id string"},
    "mapping": {"key": "u", "event_time": "timestamp_millis(ts)", "event_id": "id", "payload": {"page": "u"}},
}
UNREACHABLE = {"format": "kafka", "bootstrap_servers": "127.0.0.1:1", "topic": "visits", "encoding": "text"}


@dataclass(frozen=True)
class Ended:
    code: int
    errors: list[str]
    remedies: list[str]
    stderr: str


@dataclass(frozen=True)
class Place:
    """A folder of specs and a home."""

    root: Path

    def write(self, file: str, **changes: object) -> None:
        spec = json.loads(json.dumps(GOOD))
        for path, value in changes.items():
            *blocks, key = path.split("__")
            block = spec
            for name in blocks:
                block = block.setdefault(name, {})
            block[key] = value
        (self.root / "streams").mkdir(exist_ok=True)
        (self.root / "home" / "in").mkdir(parents=True, exist_ok=True)
        (self.root / "streams" / file).write_text(yaml.safe_dump(spec, sort_keys=False))

    def call(self, *arguments: str, home: str = "home") -> Ended:
        places = ["--streams", str(self.root / "streams"), "--home", str(self.root / home)]
        command = [sys.executable, str(PROGRAM), *arguments, *places]
        variables = {**environment(), "SESSIONIZER_MASTER": "local[1]"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=180, env=variables, cwd=self.root
        )
        assert not (self.root / "spark-warehouse").exists()
        lines = done.stderr.splitlines()
        errors, remedies = ([line for line in lines if line.startswith(kind)] for kind in ("error: ", "remedy: "))
        return Ended(done.returncode, errors, remedies, done.stderr)

    def begun(self) -> set[str]:
        """Files of the stream's home, but those of leases and of the history, which has each start and its end."""
        home = self.root / "home" / "streams" / "visits"
        files = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
        return {file for file in files if not file.startswith(("control/lease", "control/history"))}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def assert_one_clear_error(ended: Ended, code: int, *words: str) -> None:
    assert ended.code == code, ended.stderr
    assert len(ended.errors) == len(ended.remedies) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "at org.apache" not in ended.stderr
    for word in words:
        assert word in ended.errors[0]


WRONG: dict[str, tuple[dict[str, Any], type[SessionizerError], tuple[str, ...]]] = {
    "a duplicate stream": ({}, DuplicateStream, ("visits.yaml", "visits.yml")),
    "an expression that does not fit": (
        {"mapping__key": "lower(user_id)"}, InvalidSpec, ("mapping.key", "lower(user_id)", "u, ts, id"),
    ),
    "an unknown key": (
        {"trigger_intervall": "5 seconds"}, InvalidSpec, ("trigger_intervall", "5 seconds", "trigger_interval'"),
    ),
    "an unreachable broker": (
        {"source": UNREACHABLE, "mapping__key": "value", "mapping__event_id": "value"},
        SourceUnreachable, ("127.0.0.1:1", "refused"),
    ),
    "an unwritable home": ({}, UnwritablePath, ("{file}", "Not a directory")),
    "an unwritable sink": ({"sink__path": "{file}"}, UnwritablePath, ("{file}/sessions", "the table sessions")),
}  # fmt: skip
"""Changes of a good spec, the error, and words of it."""
BEFORE_A_START = ("a duplicate stream", "an unknown key", "an unwritable home")


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=pytest.mark.long if each == "an unwritable sink" else ()) for each in WRONG]
)
def test_a_start_leaves_one_clear_error_and_an_exit_record_at_most(place: Place, what: str) -> None:
    changes, error, words = WRONG[what]
    (file := place.root / "file").write_text("in the way")
    for name in ("visits.yaml", "visits.yml")[: 2 if error is DuplicateStream else 1]:
        place.write(name, **{each: file_in(value, file) for each, value in changes.items()})
    uid = () if what in BEFORE_A_START else ("--uid", "launched")  # a launched driver leaves its record in any case
    ended = place.call("run", "visits", *uid, home="file" if "home" in what else "home")
    assert_one_clear_error(ended, error.exit_code, *(file_in(word, file) for word in words))
    if what in BEFORE_A_START:
        assert place.begun() == set()
        return
    assert place.begun() == {"control/exit.launched.json", "control/heartbeat.json"}
    record = json.loads((place.root / "home/streams/visits/control/exit.launched.json").read_text())
    assert (record["error_type"], record["terminal"]) == (error.__name__, issubclass(error, TerminalError))


def file_in(text: Any, file: Path) -> Any:
    return text.replace("{file}", str(file)) if isinstance(text, str) else text


@pytest.mark.long
def test_a_topic_that_is_not_there_or_must_not_be_read_is_named(
    place: Place, kafka_broker: KafkaBroker, kafka_topic: str
) -> None:
    secret, compacted = f"{kafka_topic}-secret", f"{kafka_topic}-compacted"
    kafka_broker.create_topic(secret)
    kafka_broker.forbid_reading(secret)
    kafka_broker.create_topic(compacted, cleanup_policy="compact,delete")
    topics = {"compacted": f"{kafka_topic},{compacted}", "gone": f"{kafka_topic},nowhere", "secret": secret}
    for name, topic in {**topics, "taken": compacted, "visits": kafka_topic}.items():
        source = UNREACHABLE | {"bootstrap_servers": kafka_broker.bootstrap_servers, "topic": topic}
        mapping = {"mapping__key": "value", "mapping__event_id": "value", "mapping__payload__page": "value"}
        accepts = {"source__accept_compaction": name == "taken"}
        place.write(
            f"{name}.yaml", name=name, source=source, **mapping, **accepts, mapping__event_time="kafka.timestamp"
        )
    ended = place.call("spec", "check", "--deep")
    assert ended.code == InvalidSpec.exit_code, ended.stderr
    named = [[name for name in (compacted, "'gone'", "'nowhere'", secret) if name in error] for error in ended.errors]
    assert named == [[compacted], ["'gone'", "'nowhere'"], [secret]], ended.stderr
    ended = place.call("run", "secret", "--uid", "launched")
    assert_one_clear_error(ended, SourceForbidden.exit_code, secret, "TopicAuthorizationException")
    assert list(place.root.glob("home/streams/secret/lineages/*")) == []


@pytest.mark.long
@pytest.mark.parametrize("plain", ["0", "1"])
def test_the_deep_check_names_every_misfit_in_one_go(place: Place, monkeypatch: pytest.MonkeyPatch, plain: str) -> None:
    monkeypatch.setenv(PLAIN_SPARK, plain)
    secrets = "(select max(value) from text.`/proc/self/environ`)"
    misfits = {
        "aggregate": {"mapping__key": "max(u)"},
        "clock": {"mapping__closes": "timestamp_millis(ts) < current_timestamp()"},
        "column": {"mapping__payload__page": "pages"},
        "columns": {"source__columns": "u strin, ts bigint"},
        "default": {"source__columns": "u string default uuid(), ts bigint, id string"},
        "folder": {"source__path": "nowhere"},
        "interval": {"mapping__payload__page": "interval 1 day"},
        "measure": {"measures__first": "page"},
        "milliseconds": {"mapping__event_time": "ts"},
        "nothing": {"mapping__payload__page": "null"},
        "random": {"mapping__payload__page": "concat(u, uuid())"},
        "reflection": {"mapping__key": "java_method('java.lang.System', 'getenv', 'HOME')"},
        "rows": {"mapping__key": "explode(split(u, ','))"},
        "subquery": {"mapping__payload__page": secrets},
        "subquery_of_measure": {"measures__first": f"max(page) || {secrets}"},
        "syntax": {"mapping__closes": "u = = 1"},
        "table": {"rules__client_timeouts_table": "nowhere", "mapping__client": "u"},
        "three": {"mapping__key": "users", "mapping__closes": "u", "mapping__payload__page": "`current_user`"},
        "time": {"mapping__payload__page": "named_struct('at', cast(timestamp_millis(ts) as time))"},
        "today": {"mapping__closes": "timestamp_millis(ts) < 'today'"},
        "twice": {"source__columns": "u string, U string, ts bigint, id string"},
        "user": {"mapping__key": "user"},
        "version": {"mapping__key": "concat(u, version())"},
        "where": {"mapping__payload__page": "_metadata.file_path"},
        "window": {"mapping__key": "lag(u) over (partition by u order by ts)"},
    }
    for name, changes in misfits.items():
        place.write(f"{name}.yaml", name=name, **changes)
    told = {name: [*changes] if name == "three" else [next(iter(changes))] for name, changes in misfits.items()}
    place.write("visits.yaml")
    ended = place.call("spec", "check", "--deep")
    assert ended.code == InvalidSpec.exit_code
    # error: <file>:<line>: <field> is ...
    said = [(Path(error.split()[1]).name.split(":")[0], error.split()[2]) for error in ended.errors]
    expected = [(f"{name}.yaml", field.replace("__", ".")) for name, fields in told.items() for field in fields]
    assert said == expected, ended.stderr
    words = ["None is called user", "not version()", "None is called _metadata", "not uuid()", "not java_method"]
    for word in (*words, "a column: u, ts, id.", "no subquery", "not current_timestamp()", "not 'today'"):
        assert any(word in error for error in ended.errors), word
    assert "Traceback" not in ended.stderr
    assert "at org.apache" not in ended.stderr
    assert not (place.root / "home" / "streams").exists()
