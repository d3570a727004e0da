"""Pure tests: none starts a process."""

from collections.abc import Generator
from functools import cache

import pytest
from typer import testing

from support.fixtures.no_process import no_process

# For each line that is typed, typer makes all commands anew: most of what a test of one takes.
testing._get_command = cache(testing._get_command)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    """Watch the fixtures of a test too, those of its module included."""
    with no_process():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with no_process():
        return (yield)
