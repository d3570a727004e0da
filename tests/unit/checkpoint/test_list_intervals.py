"""Interval of Spark's lists of files: ten, or another with which Spark finds the parts of both lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.checkpoint.list_intervals import fitting_interval
from sessionizer.checkpoint.names import EVENTS, PUNCTUATIONS, source_log
from support.places import opened

if TYPE_CHECKING:
    from pathlib import Path

NONE = ("",)


def plain(parts: int) -> tuple[str, ...]:
    return tuple(map(str, range(parts)))


@pytest.mark.parametrize(
    ("events", "punctuations", "interval"),
    [
        pytest.param(NONE, NONE, 10, id="no-list"),
        pytest.param(("0", ".0.crc", ".1.tmp"), plain(9), 10, id="topic-and-few-punctuations"),
        pytest.param(("9.compact", "10", "11"), ("19.compact", "20"), 10, id="as-drivers-write-them"),
        pytest.param(plain(10), NONE, 20, id="the-newest-would-be-compact"),
        pytest.param(plain(25), NONE, 30, id="an-earlier-one-would-be-compact"),
        pytest.param(plain(12), plain(34), 40, id="both-lists-in-one-interval"),
        pytest.param(NONE, (*plain(50)[:-1], "49.compact", "50", "58"), 10, id="not-yet-at-the-next-compact-one"),
        pytest.param(("49.compact", *plain(61)[50:]), NONE, 20, id="with-20-spark-takes-25-of-one-compact-part"),
        pytest.param(("49.compact", "99.compact", *plain(118)[100:]), NONE, 10, id="spark-believes-two-compact-parts"),
        pytest.param(("9.compact", "29.compact", "49"), NONE, 10, id="none-fits-because-a-compact-part-is-gone"),
    ],
)
def test_the_interval_fits_the_parts_of_both_lists(
    tmp_path: Path, events: tuple[str, ...], punctuations: tuple[str, ...], interval: int
) -> None:
    for source, names in ((EVENTS, events), (PUNCTUATIONS, punctuations)):
        folder = opened(source_log(tmp_path, source))
        for name in filter(None, names):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
    assert fitting_interval(tmp_path) == interval
