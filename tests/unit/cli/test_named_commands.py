"""Every error has its one line of advice, its exit code and a line in the documentation. Each command can be pasted."""

import ast
import copy
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from sessionizer import errors
from sessionizer.causes.cause import PROCESS_CAUSES, START_CAUSES, name_stream
from sessionizer.causes.table import CAUSES, ERROR_CAUSES, QUERY_CAUSES, SYSTEM, cause_of_error, remedy_for
from sessionizer.cli.app import LoadedCommands, app
from sessionizer.cli.places import CommandLine, existing_result
from sessionizer.control.history.sample import STRAGGLER_REMEDIES
from sessionizer.control.records.driver_records import Heartbeat, Phase
from sessionizer.control.status.batch_progress import ProgressTeller, progress_line
from sessionizer.deployment.running_spec import require_continuable
from sessionizer.errors import RetryEffect, SessionizerError
from sessionizer.errors import driver_errors as launch_errors
from sessionizer.home.clock import describe_duration
from sessionizer.home.record_file import ControlFile
from sessionizer.lineage.canary.judge import backfill_command
from sessionizer.stream_spec.decisions import Change
from sessionizer.stream_spec.spec_text import stream_schema
from support.expected.error_examples import EXAMPLES
from support.expected.named_commands import commands_in, faults
from support.fixtures.platform import Captured, Main
from support.fixtures.reviewed import Reviewed
from support.places import REPOSITORY
from support.processes.fabricated_platform import Platform
from support.sentences import refusals_in, texts_in

OF_SOURCES: Final = (
    "source_data_loss", "source_rewritten", "source_forbidden", "source_missing", "schema_change", "bad_data",
    "SourceMissing", "SourceForbidden", "SourceReplaced",
)  # fmt: skip
"""Causes by which a source ends a driver until a person does something."""
WITH_MORE: Final = (
    errors.InvalidSpec("mapping.key", "user", "an expression over u"),
    errors.InvalidSpec("rules.older", 1, "a known key", file=Path("/home/lineages/a/spec.json")),
    errors.LineageUnfit("clicks", "b", "a", "80% of its rows were refused, 1% before"),
    errors.LineageUnfit("clicks", "b", None, "80% of its rows were refused, 1% before"),
)
"""Errors of which the command line says more than the cause."""
REMEDIES: Final = {
    **{name: name_stream(cause.remedy, "clicks") for name, cause in CAUSES.items()},
    **{f"{number}: {type(error).__name__}": remedy_for(error) for number, error in enumerate([*WITH_MORE, *EXAMPLES])},
    "a late backlog": f"run `{backfill_command('clicks')}`",
    **{f"a straggler: {kind}": name_stream(remedy, "clicks") for kind, remedy in STRAGGLER_REMEDIES.items()},
}

REFUSALS: Final = sorted(
    text
    for text in {*refusals_in((REPOSITORY / "jobs").rglob("*.py")), *map(str, [*WITH_MORE, *EXAMPLES])}
    if commands_in(text)
)
"""The values to use instead, and the errors, that name a command."""
SECTIONS: Final = stream_schema()["properties"]
FIELD: Final = re.compile(rf"(?<![\w./{{])({'|'.join(SECTIONS)})\.((?!json\b)[a-z_]+)(?!\w)")
"""A field of a spec, as a sentence names it: `rules.idle_after`."""
VARIABLE: Final = re.compile(r"SESSIONIZER_[A-Z_]+")
FILLED_IN: Final = re.compile(r"\{[^{}]*\}|<[a-z]+>|[A-Z]{3,}|…")


def fields_of(section: str) -> set[str]:
    """Return the names of all fields in a section of a spec, whichever kind of source it is."""
    schema, found, todo = stream_schema(), set[str](), [SECTIONS[section]]
    while todo:
        node = todo.pop()
        node = schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        found |= set(node.get("properties", ()))
        todo += [*node.get("anyOf", ()), *node.get("oneOf", ())]
    return found


def test_the_commands_of_a_remedy_and_of_a_refusal_can_be_pasted() -> None:
    texts = [*REMEDIES.items(), *((text, text) for text in REFUSALS)]
    found = [(name, words) for name, text in texts for words in commands_in(text)]
    assert [(name, words) for name, words in found if list(faults(words))] == []
    assert [name for name, words in found if name in REMEDIES and "…" in words] == []


def test_what_a_text_names_exists() -> None:
    """A remedy once named the field `rules.idle_timeout`, which no spec has."""
    texts = list(texts_in(file for folder in ("jobs", "plugins") for file in (REPOSITORY / folder).rglob("*.py")))
    scripts = [file.read_text(encoding="utf-8") for file in (REPOSITORY / "jobs/sessionizer/page").rglob("*.js")]
    settings = set(VARIABLE.findall((REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")))
    fields = {section: fields_of(section) for section in SECTIONS}
    named = [found for text in texts for found in FIELD.findall(text)]
    typed = [words for text in (*texts, *scripts) for words in commands_in(FILLED_IN.sub("X", text))]
    commands = [words for words in typed if words[0] != "X" and words[0].isalpha()]
    assert (len(named) > 50, len(commands) > 80) == (True, True)
    assert [".".join(found) for found in named if found[1] not in fields[found[0]]] == []
    assert {name for text in texts for name in VARIABLE.findall(text)} - settings - {"SESSIONIZER_SUBMITTED"} == set()
    assert [words for words in commands if list(faults([*words, "X", "X"]))] == []


@pytest.mark.parametrize("name", OF_SOURCES)
def test_what_is_wrong_with_a_source_has_a_command(name: str) -> None:
    assert CAUSES[name].verdict is not RetryEffect.TRANSIENT
    assert commands_in(CAUSES[name].remedy)


def test_what_is_wrong_with_a_command_is_found() -> None:
    assert list(faults(["switsch"])) == ["switsch"]
    assert list(faults(["switch", "--accept-lost", "clicks"])) == ["--accept-lost"]
    assert list(faults(["spec", "check", "--deep", "clicks"])) == []
    assert list(faults(["savepoint", "list"])) == ["stream"]
    assert list(faults(["run", "--until", "caught-up"])) == ["stream"]


ROOT: Final[Any] = typer.main.get_command(app)


@pytest.mark.parametrize(
    ("typed", "said", "pasted"),
    [
        ("restore v x --home /a", "`sessionizer savepoint list v`", "`sessionizer savepoint list v --home /a`"),
        ("restore v x --home=/a", "see `sessionizer status`.", "see `sessionizer status --home /a`."),
        ("savepoint show v x --home /a --in /b", "`sessionizer savepoint create v`",
         "`sessionizer savepoint create v --home /a`"),
        ("run v --streams s --home /a --data /d", "`sessionizer promote v`", "`sessionizer promote v --home /a`"),
        ("run v --streams s --data '/d e'", "`sessionizer apply v`", "`sessionizer apply v --streams s --data '/d e'`"),
        ("--control hdfs://n/c run v", "`sessionizer status`", "`sessionizer --control hdfs://n/c status`"),
        ("run v --home /a --data /d", "`sessionizer find v --home /b`", "`sessionizer find v --home /b`"),
        ("restore v x --home /a", "so: sessionizer abandon v", "so: sessionizer abandon v --home /a"),
        ("run v --home /a", "run the same command, or `make`", "run the same command, or `make`"),
        ("run v", "`sessionizer status v`", "`sessionizer status v`"),
        ("-m pytest tests --home /a", "`sessionizer status v`", "`sessionizer status v`"),
    ],
)  # fmt: skip
def test_a_command_acts_on_the_places_that_were_typed(typed: str, said: str, pasted: str) -> None:
    assert CommandLine.parse(ROOT, shlex.split(typed)).complete(said) == pasted
    assert [word for words in commands_in(pasted) for word in faults(words)] == []


def test_what_the_code_builds_of_words_exists() -> None:
    """A verdict once named `stop --drain`, which no text has: its words were joined."""
    texts = [file.read_text(encoding="utf-8") for file in (REPOSITORY / "jobs").rglob("*.py")]
    trees = [ast.parse(text) for text in texts if "quoted_command" in text]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    built = [
        [_word(word) for word in call.args] for call in calls if getattr(call.func, "id", None) == "quoted_command"
    ]
    assert len(built) > 3
    assert [words for words in built if list(faults(words))] == []


def _word(part: ast.expr) -> str:
    parts = part.values if isinstance(part, ast.JoinedStr) else [part]
    return "".join(str(each.value) if isinstance(each, ast.Constant) else "X" for each in parts)


@pytest.mark.parametrize(
    ("typed", "stream"),
    [
        ("run v", "v"),
        ("stop --wait 0 -- v", "v"),
        ("savepoint diff --events v a b", "v"),
        ("--control c stop --wait 0 v", "v"),
        ("status", None),
    ],
)
def test_the_stream_is_the_argument_of_that_name(typed: str, stream: str | None) -> None:
    assert CommandLine.parse(ROOT, typed.split()).stream == stream


def test_the_name_of_a_record_is_no_field_of_the_spec() -> None:
    values = (value for module in list(sys.modules.values()) for value in list(vars(module).values()))
    kinds = [value for value in values if isinstance(value, ControlFile)]
    named = {kind.key for kind in kinds if kind.key}
    assert len(named) > 3
    advice = {key: remedy_for(errors.InvalidSpec(key, "../x", "a name")) for key in named}
    assert advice == {key: f"give another {key}" for key in named}


def test_a_number_without_an_end_is_refused_or_waited_for(main: Main) -> None:
    """`--days inf` was multiplied, and ended with a traceback."""
    todo: list[tuple[Any, list[str]]] = [(ROOT, [])]
    endless = []
    while todo:
        command, words = todo.pop()
        todo += [(below, [*words, name]) for name, below in getattr(command, "commands", {}).items()]
        needed = ["x" for each in command.params if each.param_type_name == "argument" and each.required]
        for option in command.params:
            if "<float" in str(option.get_help_record(typer.Context(command))) and "--wait" not in option.opts:
                assert main(*words, *needed, option.opts[0], "inf") == 2, words
                endless.append(option.opts[0])
    assert {"--days", "--every"} <= set(endless)


ELSEWHERE: Final = "s3://bucket/folder"
LOCAL: Final = (
    "history clicks --input . --to", "history clicks --input", "init", "prove clicks --report", "bundle clicks --to",
    "jars fetch", "spec schema --write", "spec check --streams", "status --home",
)  # fmt: skip


@pytest.mark.parametrize("words", LOCAL)
def test_a_uri_is_not_taken_for_a_folder_below_the_current_one(
    words: str, main: Main, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A bundle was written to ./s3:/bucket."""
    monkeypatch.chdir(tmp_path)
    assert main(*words.split(), ELSEWHERE) == errors.InvalidSpec.exit_code
    assert "s3:/bucket" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_each_path_is_local_or_read_as_a_uri() -> None:
    """An option that is a path, and no text, must refuse a URI."""
    todo, paths = [ROOT], set[str]()
    while todo:
        command = todo.pop()
        todo += getattr(command, "commands", {}).values()
        for each in command.params:
            if "<path>" in str(each.get_help_record(typer.Context(command))):
                paths.add(each.opts[0])
    assert paths == {words.split()[-1] for words in LOCAL if "--" in words} | {"folder", "sample"}


def test_a_remedy_of_an_error_without_a_stream_has_the_typed_one(
    main: Main, platform: Platform, capsys: Captured
) -> None:
    code = main("savepoint", "show", "clicks", "nope", "--home", str(platform.home))
    assert code == errors.UnknownSavepoint.exit_code
    named = commands_in(capsys.readouterr().err)
    assert named == [["savepoint", "list", "clicks", "--home", str(platform.home)]]


def test_status_names_commands_for_its_home(main: Main, platform: Platform, capsys: Captured) -> None:
    platform.add("clicks")
    main("status", "clicks", "--streams", str(platform.streams), "--home", str(platform.home))
    places = ["--streams", str(platform.streams), "--home", str(platform.home)]
    assert commands_in(capsys.readouterr().out) == [["run", "clicks", *places]]


def test_the_remedy_of_a_wrong_spec_checks_the_same_folder(main: Main, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "v.yaml").write_text("name: v\nsink: 1\n")
    assert main("spec", "check", "--streams", str(tmp_path)) == errors.InvalidSpec.exit_code
    named = commands_in(capsys.readouterr().err)
    assert named
    assert {tuple(words) for words in named} == {("spec", "check", "--deep", "--streams", str(tmp_path))}


CLASSES = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SessionizerError) and kind is not errors.OfStream
]
DOCUMENTATION = REPOSITORY / "docs" / "command-line.md"


@pytest.mark.parametrize(
    ("change", "command"),
    [(Change("source.topic", "a", "b"), "switch clicks "), (Change("key_groups", 16, 8), "rescale clicks`")],
)
def test_a_change_that_no_start_applies_is_sent_to_its_command(change: Change, command: str) -> None:
    with pytest.raises(errors.InvalidSpec) as refused:
        require_continuable("clicks", [change])
    assert remedy_for(refused.value).startswith(f"run `sessionizer {command}")


def test_rows_of_an_unknown_lineage_are_deleted_by_hand_and_not_by_a_restore() -> None:
    error = errors.StateBehindTables("clicks", "/lake/sessions", "20261121T105501-3fa9c2", 9, None)
    assert "DELETE FROM delta.`/lake/sessions` WHERE lineage = '20261121T105501-3fa9c2'" in remedy_for(error)


def test_no_class_is_left_out() -> None:
    assert set(CLASSES) == {type(example) for example in EXAMPLES}
    assert {kind.__name__ for kind in CLASSES} - set(CAUSES) == {"QueryFailed", "QueryInterrupted", "StoreUnreachable"}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_a_remedy_is_one_line(error: SessionizerError) -> None:
    assert remedy_for(error).strip()
    assert "\n" not in remedy_for(error)


def test_a_lost_record_of_the_spec_has_a_way_out_that_needs_no_copy() -> None:
    lost = errors.DamagedFile(Path("/home/lineages/a/spec.json"), "cut")
    assert "delete it instead" in remedy_for(lost)
    refused = errors.InvalidSpec("rules.older", 1, "a known key", file=Path("/home/lineages/a/spec.json"))
    assert "--apply" in remedy_for(refused)


def test_no_two_causes_have_one_name() -> None:
    tables = (QUERY_CAUSES, ERROR_CAUSES, START_CAUSES, PROCESS_CAUSES, [SYSTEM])
    assert len(CAUSES) == sum(map(len, tables))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_is_tried_again_only_where_its_class_says_so(error: SessionizerError) -> None:
    races = errors.LeaseHeld | errors.LeaseLost
    terminal = isinstance(error, errors.TerminalError) and not isinstance(error, races)
    assert (cause_of_error(error).verdict is RetryEffect.TERMINAL) == terminal


def test_a_path_on_a_full_disk_is_waited_for() -> None:
    error = errors.UnwritablePath(Path("/data/x"), "the table sessions", "[Errno 28] No space left on device")
    assert cause_of_error(error) == CAUSES["disk_full"]
    assert remedy_for(error) == CAUSES["disk_full"].remedy


def test_a_spec_that_exists_is_not_made_writable(
    main: Main, platform: Platform, capsys: Captured, reviewed: Reviewed
) -> None:
    platform.add("clicks")
    sample = platform.home.parent / "clicks.csv"
    code = main("init", str(sample), "--streams", str(platform.streams), "--home", str(platform.home))
    assert code == errors.UnwritablePath.exit_code
    reviewed(capsys.readouterr().err)


OF_COMMANDS = [kind for kind in CLASSES if "exit_code" in vars(kind) or kind.__module__ != launch_errors.__name__]
"""Classes that end a command. The others are raised while Airflow launches or ends a driver."""


def test_the_documentation_has_the_exit_codes() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", DOCUMENTATION.read_text(), re.MULTILINE)
    declared, of_commands = (
        {(str(kind.exit_code), kind.__name__) for kind in kinds} for kinds in (CLASSES, OF_COMMANDS)
    )
    assert of_commands <= set(rows) <= declared


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_passes_between_processes(error: SessionizerError) -> None:
    same = copy.copy(error)  # by the way of a pickle
    assert (type(same), str(same), remedy_for(same)) == (type(error), str(error), remedy_for(error))


def test_the_documentation_has_every_command() -> None:
    documented = DOCUMENTATION.read_text()
    assert [name for name in LoadedCommands() if f"`sessionizer {name}" not in documented] == []


def test_an_error_ends_the_program_with_message_remedy_and_code(
    main: Main, platform: Platform, capsys: Captured
) -> None:
    platform.add("clicks")
    code = main("run", "click", "--streams", str(platform.streams), "--home", str(platform.home))
    assert code == errors.UnknownStream.exit_code
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: {errors.UnknownStream('click', ['clicks'])}"
    assert second.startswith("remedy: use clicks")
    assert not platform.home.exists()


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (200_000, "3 m 20 s"), (90_000_000, "1 d 1 h"), (-3000, "-3 s")],
)
def test_lengths_of_time(milliseconds: int, words: str) -> None:
    assert describe_duration(milliseconds) == words


def test_progress_is_told_at_most_so_often_and_only_of_new_batches() -> None:
    teller = ProgressTeller(10_000)
    starting = Heartbeat(uid="a", at=0, started_at=0, phase=Phase.STARTING)
    first, second = (
        Heartbeat(uid="a", at=0, started_at=0, phase=Phase.RUNNING, batch_id=batch, rows_per_second=1234.5, open_keys=9)
        for batch in (0, 1)
    )
    assert teller.line(starting, 0) is None
    assert teller.line(first, 1) == progress_line(first) == "batch 0 · 1,234 ev/s · open 9 · emitted 0"
    assert teller.line(second, 9_000) is None
    assert teller.line(second, 10_001) == progress_line(second)
    assert teller.line(second, 60_000) is None


def test_a_drained_stream_says_so_instead_of_naming_the_year_9999(reviewed: Reviewed) -> None:
    drained = Heartbeat(
        uid="a", at=0, started_at=0, phase=Phase.IDLE, batch_id=6, watermark_ms=253_402_300_789_000,
        watermark_lag_ms=-251_607_014_792_243,
    )  # fmt: skip
    reviewed(progress_line(drained))


def test_a_result_that_exists_has_a_remedy_of_its_own_and_a_closed_output_has_not() -> None:
    closed = errors.UnwritablePath("the standard output", "the result", "Broken pipe")
    found = [remedy_for(error) for error in (existing_result(Path("/data/x")), closed)]
    assert ["--to" in each for each in found] == [True, False]
