"""Small files that would take minutes to read: refused at the line that does it, before anything is built of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.spec_folder import load_stream, survey_streams
from sessionizer.stream_spec.spec_text import DEEPEST, MOST_BYTES, MOST_NODES, SafeLoader, require_bounds
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


def test_the_neighbours_of_such_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "bomb.yaml").write_text(BOMBS["merge keys"][0])
    good = "name: visits\nsource: {format: socket, host: h, port: 1}\n"
    (tmp_path / "visits.yaml").write_text(good + "mapping: {key: value, event_time: t, event_id: value}\n")
    found = survey_streams(tmp_path)
    assert list(found.specs) == ["visits"]
    assert [problem.file for problem in found.problems if isinstance(problem, InvalidSpec)] == [tmp_path / "bomb.yaml"]


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
