"""Small files that would take minutes to read: refused at the line that does it, before anything is built of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.loading import yaml_bounds
from sessionizer.stream_spec.loading.folder import load_stream, survey_streams
from sessionizer.stream_spec.loading.yaml_bounds import DEEPEST, MOST_BYTES, MOST_NODES, require_bounds
from sessionizer.stream_spec.loading.yaml_text import SafeLoader, YamlDocument

if TYPE_CHECKING:
    from pathlib import Path

    from support.fixtures.reviewed import Reviewed


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
    "aliases": (layers(9, 8, "[{before}]"), 6, f"more than {MOST_NODES} values"),
    "aliases as values": (layers(30, 2, "{{x: [{before}]}}"), 12, f"more than {MOST_NODES} values"),
    "aliases that nest": (layers(80, 1, "[{before}]"), 50, "nest too deeply"),
    "a block that holds itself": ("a: &a [x, *a]\n", 1, "holds itself"),
    "a block that holds itself below": ("a: &a\n  b:\n    c: *a\n", 3, "holds itself"),
    "an anchor that is given again": ("a: &a [v, v]\nb: &a [" + "*a, " * 9_999 + "*a]\n", 2, "more than"),
    "a number in base 60": ("key_groups: 1" + ":59" * 1_000 + "\n", 1, "a number of 3001 characters"),
    "a hexadecimal number": ("key_groups: 0x" + "f" * 10_000 + "\n", 1, "a number of 10002 characters"),
    "more values than any spec has": ("a: [" + "x, " * MOST_NODES + "x]\n", 1, f"more than {MOST_NODES}"),
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


def test_the_neighbours_of_such_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "bomb.yaml").write_text(BOMBS["merge keys"][0])
    good = "name: visits\nsource: {format: socket, host: h, port: 1}\n"
    (tmp_path / "visits.yaml").write_text(good + "mapping: {key: value, event_time: t, event_id: value}\n")
    found = survey_streams(tmp_path)
    assert list(found.specs) == ["visits"]
    assert [problem.file for problem in found.problems if isinstance(problem, InvalidSpec)] == [tmp_path / "bomb.yaml"]


def test_an_alias_that_stands_for_little_is_read(tmp_path: Path) -> None:
    document = YamlDocument("a: &a {b: 1}\nc: *a\n", tmp_path)
    assert document.data == {"a": {"b": 1}, "c": {"b": 1}}


def counted(value: object) -> int:
    """How many values and keys there are, each as often as it stands."""
    if isinstance(value, dict):
        return 1 + sum(counted(key) + counted(part) for key, part in value.items())
    return 1 + sum(map(counted, value)) if isinstance(value, list) else 1


def deepest(value: object) -> int:
    parts = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + max(map(deepest, parts), default=0)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 12), max_size=6), min_size=1, max_size=12))
def test_what_is_built_is_never_larger_or_deeper_than_was_counted(lines: list[list[int]]) -> None:
    """Lines of lists, each of references to lines before it: their number decides how large the last one is."""
    text = "".join(
        f"- &a{number} [{', '.join(f'*a{other}' if other < number else 'x' for other in line)}]\n"
        for number, line in enumerate(lines)
    )
    events = list(yaml.parse(text, Loader=SafeLoader))
    try:
        survey = require_bounds(events)
    except yaml.YAMLError:
        built = yaml.load(text, Loader=SafeLoader)  # noqa: S506  CSafeLoader
        assert counted(built) > MOST_NODES
    else:
        built = yaml.load(text, Loader=SafeLoader)  # noqa: S506  CSafeLoader
        assert survey.nodes == counted(built) <= MOST_NODES
        assert deepest(built) <= DEEPEST + 1


def test_the_survey_reads_no_further_than_the_bound() -> None:
    text = BOMBS["aliases"][0]
    seen: list[yaml.Event] = []

    def noted() -> object:
        for event in yaml.parse(text, Loader=SafeLoader):
            seen.append(event)
            yield event

    with pytest.raises(yaml.YAMLError):
        yaml_bounds.require_bounds(noted())  # type: ignore[arg-type]
    assert len(seen) < 100
