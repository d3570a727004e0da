"""Files and folders of specs."""

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.errors import STREAMS_FOLDER, DuplicateStream, InvalidSpec, UnknownStream
from sessionizer.stream_spec.document.names import LONGEST, MILLISECONDS_OF, format_duration, parse_duration
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_folder import add_place, find_stream, load_stream, require_own_tables, survey_streams
from sessionizer.stream_spec.spec_text import DEEPEST, MOST_BYTES, MOST_NODES, SafeLoader, require_bounds
from support.expected.file_accesses import file_accesses
from support.faults.bad_clicks import changed
from support.fixtures.reviewed import Reviewed
from support.streams.spec_folder import load_streams


def write(folder: Path, file: str, name: str) -> Path:
    path = folder / file
    path.write_text(yaml.safe_dump(changed({"name": name})))
    return path


def test_a_folder_is_read_by_name(tmp_path: Path) -> None:
    write(tmp_path, "two.yml", "two")
    write(tmp_path, "one.yaml", "one")
    (tmp_path / "stream.schema.json").write_text("{}")
    (tmp_path / ".one.yaml.swp").write_text(": :")
    (tmp_path / ".hidden.yaml").write_text(": :")
    assert list(load_streams(tmp_path)) == ["one", "two"]


@pytest.mark.parametrize(
    ("second", "found", "streams"), [("copy_of_one.yaml", "one", {"one"}), ("one.yml", None, set[str]())]
)
def test_two_files_of_one_name_are_refused_and_a_copy_takes_no_stream_down(
    tmp_path: Path, second: str, found: str | None, streams: set[str]
) -> None:
    files = sorted((write(tmp_path, "one.yaml", "one"), write(tmp_path, second, "one")))
    with pytest.raises(DuplicateStream) as caught:
        load_streams(tmp_path)
    assert (caught.value.name, list(caught.value.files)) == ("one", files)
    survey = survey_streams(tmp_path)
    assert set(survey.specs) == streams
    (problem,) = survey.problems
    assert isinstance(problem, DuplicateStream)
    assert list(problem.files) == files
    if found is None:
        with pytest.raises(DuplicateStream):
            find_stream(tmp_path, "one")
    else:
        assert find_stream(tmp_path, "one").name == found


def test_broken_files_leave_their_neighbours_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path, f"{name}.yaml", name)
    (tmp_path / "broken.yaml").write_text("{")
    write(tmp_path, "misnamed.yaml", "three")
    assert find_stream(tmp_path, "one").name == "one"
    found = survey_streams(tmp_path)
    assert set(found.specs) == {"one", "two"}
    places = [str(problem).partition(": ")[0].rpartition("/")[2] for problem in found.problems]
    assert places == ["broken.yaml:2", "misnamed.yaml"]


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # a name of at most 108 bytes


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("make", [_pipe, _socket, _device, _large, _link_to_itself, Path.mkdir])
def test_what_is_no_regular_file_of_bounded_size_is_refused_at_once(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "one.yaml", "one")
    make(tmp_path / "odd.yaml")
    found = survey_streams(tmp_path)
    assert set(found.specs) == {"one"}
    (problem,) = found.problems
    assert isinstance(problem, InvalidSpec)
    assert (problem.field, problem.file) == ("the file", tmp_path / "odd.yaml")
    with pytest.raises(InvalidSpec):
        find_stream(tmp_path, "odd")


def test_a_link_to_a_spec_is_read_as_in_a_mounted_config_map(tmp_path: Path) -> None:
    streams = tmp_path / "mounted"
    (streams / "..2026").mkdir(parents=True)
    write(streams / "..2026", "one.yaml", "one")
    (streams / "..data").symlink_to("..2026")
    (streams / "one.yaml").symlink_to("..data/one.yaml")
    (tmp_path / "streams").symlink_to(streams)
    assert find_stream(tmp_path / "streams", "one").name == "one"


def test_no_line_of_a_file_outside_is_shown(tmp_path: Path) -> None:
    (tmp_path / "streams").mkdir()
    (tmp_path / "private").write_text("root:s3cr3t: [")
    (tmp_path / "streams" / "one.yaml").symlink_to(tmp_path / "private")
    with pytest.raises(InvalidSpec) as caught:
        find_stream(tmp_path / "streams", "one")
    assert (caught.value.field, caught.value.value) == ("the file", "a link")
    assert "s3cr3t" not in caught.value.advise()


@pytest.mark.parametrize(
    ("ours", "theirs", "field"),
    [
        ({"path": "lake"}, {"path": "lake/"}, "sink.path"),
        ({"path": "lake"}, {"path": "lake/sessions"}, "sink.path"),
        ({"path": "lake/quarantine/eu"}, {"path": "lake"}, "sink.path"),
        ({"path": "lake"}, {"path": "lake/eu"}, None),
        ({"path": "lake"}, {"path": "lakes/sessions"}, None),
        ({"table": "web.clicks"}, {"table": "web.clicks"}, "sink.table"),
        ({"table": "web.clicks_daily"}, {"table": "web.clicks"}, "sink.table"),
        ({"table": "web.clicks"}, {"table": "web.visits"}, None),
        ({}, {}, None),
    ],
)
def test_a_stream_has_tables_and_names_of_its_own(
    tmp_path: Path, ours: dict[str, str], theirs: dict[str, str], field: str | None
) -> None:
    sinks = {"one": ours, "two": theirs}
    specs = [StreamSpec.model_validate(changed({"name": name, "sink": sink})) for name, sink in sinks.items()]
    for spec in specs:
        with pytest.raises(InvalidSpec) if field else nullcontext() as caught:
            require_own_tables(spec, specs, tmp_path)
        assert caught is None or caught.value.field == field


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=STREAMS_FOLDER):
        load_streams(tmp_path / "nowhere")
    (problem,) = survey_streams(tmp_path / "nowhere").problems
    assert isinstance(problem, InvalidSpec)
    assert problem.field == STREAMS_FOLDER
    assert "SESSIONIZER_STREAMS" in problem.advise()


@pytest.mark.parametrize("name", ["three", "../one", "", "stream.schema"])
def test_an_unknown_stream_is_told_with_the_known(tmp_path: Path, name: str) -> None:
    write(tmp_path, "one.yaml", "one")
    with pytest.raises(UnknownStream) as caught:
        find_stream(tmp_path, name)
    assert set(caught.value.known) == {"one"}


UNFIT_FOR_TAGS = ["!!int ''", "!!int '-'", "!!int x", "!!float ''", "!!float '1:x'", "!!bool maybe", "!!timestamp x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"name: a\nsource: [\n", r"visits\.yaml:3: the YAML is broken \(did not find expected node content\)"),
        (b"name: a\n\tsource: b\n", r"visits\.yaml:2: the YAML is broken \(found a tab character"),
        (b"columns: u string, s struct<a: string>\n", r"visits\.yaml:1: .*mapping values .*Put the value in quotes"),
        (b"name: !!python/object/apply:os.getcwd []\n", r"visits\.yaml:1: the YAML is broken \(could not determine"),
        (b"name: *nobody\n", r"visits\.yaml:1: the YAML is broken \(an alias \(\*nobody\) is not read: write"),
        (b"a: 1\n---\nb: 2\n", r"visits\.yaml:2: the YAML is broken"),
        (b"name: 2026-99-99\n", r"visits\.yaml: the YAML is broken \(month must be"),
        *((f"name: {tagged}\n".encode(), r"visits\.yaml: the YAML is broken") for tagged in UNFIT_FOR_TAGS),
        (b"? [a]\n: 1\n", r"visits\.yaml:1: the YAML is broken"),
        (b"a: &a {b: *a}\n", r"visits\.yaml:1: the YAML is broken \(an alias \(\*a\) is not read"),
        (b"a: " + b"{a: " * 50_000, r"visits\.yaml:1: the YAML is broken \(blocks nest too deeply\)"),
        (b"name: \x07\n", r"visits\.yaml.*: the YAML is broken"),
        (b"", r"the spec is empty"),
        (b"# nothing\n", r"the spec is empty"),
        (b"just text\n", r"the spec is str"),
        (b"- a\n", r"the spec is list"),
        (b"name: \xff\n", r"the file is broken at byte 6. Use UTF-8"),
        (
            b"name: visits\nrules:\n  gap_timeout: 1 hour\n  emit_every: 1 second\n  gap_timeout: 2 hours\n",
            r"visits\.yaml:5: rules\.gap_timeout is given twice\. .* line 3",
        ),
    ],
)
def test_broken_files_are_told_in_one_line(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "visits.yaml"
    file.write_bytes(text)
    with pytest.raises(InvalidSpec, match=message) as caught:
        load_stream(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "line"), [("mapping.payload.page", 7), ("mapping.payload", 6), ("rules.gap_timeout", None)]
)
def test_what_spark_refuses_gets_its_place(tmp_path: Path, field: str, line: int | None) -> None:
    file = tmp_path / "visits.yaml"
    file.write_text("name: visits\nsource:\n  path: feed\nmapping:\n  key: u\n  payload:\n    page: uuid()\n")
    error = add_place(InvalidSpec(field, "uuid()", "another"), file)
    assert (error.field, error.value, error.allowed, error.file, error.line) == (field, "uuid()", "another", file, line)
    assert add_place(error, tmp_path / "elsewhere.yaml") is error


def test_a_missing_file_is_told(tmp_path: Path, reviewed: Reviewed) -> None:
    with pytest.raises(InvalidSpec) as raised:
        load_stream(tmp_path / "none.yaml")
    reviewed(raised.value)


def test_specs_are_read_once_and_by_libyaml(tmp_path: Path) -> None:
    """Airflow reads all of them again and again; YAML in Python takes some ten times as long."""
    for number in range(50):
        write(tmp_path, f"s{number}.yaml", f"s{number}")
    with file_accesses() as seen:
        assert len(load_streams(tmp_path)) == 50
    assert Counter(seen) == Counter([f"list {tmp_path}", *(f"open {file}" for file in tmp_path.iterdir())])
    assert SafeLoader is yaml.CSafeLoader


units = st.sampled_from(sorted(MILLISECONDS_OF))


@given(st.integers(min_value=1, max_value=LONGEST))
def test_formatting_then_parsing_is_a_round_trip(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@given(st.integers(min_value=1, max_value=36_500), units, st.sampled_from(["", "s"]))
def test_a_count_and_a_unit_multiply(count: int, unit: str, plural: str) -> None:
    assert parse_duration(f"{count} {unit}{plural}") == count * MILLISECONDS_OF[unit]


@given(st.text())
def test_any_text_is_a_positive_duration_or_refused(text: str) -> None:
    try:
        milliseconds = parse_duration(text)
    except ValueError:
        return
    assert 0 < milliseconds <= LONGEST


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(1, "1 millisecond"), (1_500, "1500 milliseconds"), (60_000, "1 minute"), (5_400_000, "90 minutes")],
)
def test_the_longest_whole_unit_is_written(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(
    "text",
    [
        "0 seconds", "-1 second", "1.5 hours", "30", "30s", "30seconds", "30  seconds", " 30 seconds", "30 seconds\n",
        "30 Seconds", "seconds", "", "1 fortnight", "36501 days", "9" * 5000 + " days", "٣ seconds", 30, 1.5, True,
        None, ["1 second"],
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="a unit"):
        parse_duration(text)


def layers(count: int, width: int, write: str) -> str:
    """Each line stands for ``width`` of the line before it."""
    lines = ["a0: &a0 {k: v}"]
    for layer in range(1, count):
        before = ", ".join([f"*a{layer - 1}"] * width)
        lines.append(f"a{layer}: &a{layer} " + write.format(before=before, layer=layer))
    return "\n".join(lines) + "\n"


BOMBS = {
    "merge keys": (layers(9, 8, "{{<<: [{before}], k{layer}: v}}"), 2, "merge keys"),
    "a single merge key": ("a: &a {k: v}\nb: {<<: *a}\n", 2, "merge keys"),
    "aliases": (layers(9, 8, "[{before}]"), 2, "an alias (*a0)"),
    "a single alias": ("a: &a {b: 1}\nc: *a\n", 2, "an alias (*a)"),
    "a block that holds itself": ("a: &a\n  b:\n    c: *a\n", 3, "an alias (*a)"),
    "a number in base 60": ("key_groups: 1" + ":59" * 1_000 + "\n", 1, "a number of 3001 characters"),
    "a hexadecimal number": ("key_groups: 0x" + "f" * 10_000 + "\n", 1, "a number of 10002 characters"),
    "more values than any spec has": ("a: [" + "x, " * MOST_NODES + "x]\n", 1, f"more than {MOST_NODES}"),
    "more levels than any spec has": ("a: " + "[" * DEEPEST + "x" + "]" * DEEPEST, 1, "nest too deeply"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_take_minutes_to_read_is_refused_at_its_line(tmp_path: Path, name: str) -> None:
    text, line, problem = BOMBS[name]
    file = tmp_path / "visits.yaml"
    file.write_text(text)
    with pytest.raises(InvalidSpec) as caught:
        load_stream(file)
    assert caught.value.line == line, caught.value
    assert problem in str(caught.value)


def test_a_file_of_more_than_a_megabyte_is_not_read(tmp_path: Path, reviewed: Reviewed) -> None:
    file = tmp_path / "visits.yaml"
    file.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(InvalidSpec) as raised:
        load_stream(file)
    reviewed(raised.value)


@given(st.lists(st.integers(0, DEEPEST + 2), min_size=1, max_size=3), st.integers(MOST_NODES - 99, MOST_NODES + 2))
def test_the_bounds_count_what_is_built(depths: list[int], nodes: int) -> None:
    """A list of nested lists, filled up with values to a number of nodes in all."""
    nested = ["[" * depth + "]" * depth for depth in depths if depth]
    values = nodes - 1 - sum(depths)
    text = f"[{', '.join([*nested, *['x'] * values])}]"
    fits = max(depths) < DEEPEST and nodes <= MOST_NODES
    try:
        require_bounds(yaml.parse(text, Loader=SafeLoader))
    except yaml.YAMLError:
        assert not fits
    else:
        assert fits


def test_no_more_is_read_than_the_bound() -> None:
    seen: list[yaml.Event] = []

    def noted() -> Iterator[yaml.Event]:
        for event in yaml.parse("[" + "x, " * 2 * MOST_NODES + "x]", Loader=SafeLoader):
            seen.append(event)
            yield event

    with pytest.raises(yaml.YAMLError):
        require_bounds(noted())
    assert len(seen) < MOST_NODES + 10
