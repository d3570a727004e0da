"""Options of `sessionizer switch` that do not go together, refused before Spark starts."""

import pytest

from sessionizer.errors import InvalidSpec
from support.processes.fabricated_platform import Platform


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ((), "--start-at"),
        (("--leave-unread",), "--start-at"),
        (("--start-at", "somewhen"), "--start-at"),
        (("--accept-loss", "--start-at", "earliest"), "--start-at"),
        (("--accept-loss", "--leave-unread"), "--leave-unread"),
    ],
)
def test_what_does_not_go_together_is_named(platform: Platform, options: tuple[str, ...], field: str) -> None:
    platform.add("clicks")
    error = platform.call("switch", "clicks", *options).exception
    assert isinstance(error, InvalidSpec)
    assert error.field == field
