"""Durations: text to milliseconds and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.stream_spec.document.names import LONGEST, MILLISECONDS_OF, format_duration, parse_duration

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
