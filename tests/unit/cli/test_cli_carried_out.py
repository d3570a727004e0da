"""A plan that has been carried out is not carried out again, nor called another: the command says what was done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from sessionizer.control.records.operation_record import Ending, Reached, read_operations, write_operation
from sessionizer.errors import UnknownSavepoint
from sessionizer.lineage.active import start_lineage
from support.verbs.begun_restore import begun_restore

if TYPE_CHECKING:
    from typer.testing import Result

    from sessionizer.control.records.operation_record import OperationRecord
    from sessionizer.home.stream_home import StreamHome
    from support.fixtures.reviewed import Reviewed
    from support.processes.fabricated_platform import Platform

COMMANDS = {
    "switch": ("--start-at", "latest"),
    "rescale": ("--key-groups", "8"),
    "rollback": (),
    "restore": ("20261124T120000-aaaaaa",),
    "seed": ("--history", "source"),
}
WITHOUT_SPEC = {"rollback", "restore"}
"""What these go back to says all that they need."""


def typed(platform: Platform, verb: str, *options: str) -> Result:
    command = [verb, "clicks", *COMMANDS[verb], *options, "--home", str(platform.home)]
    streams = [] if verb in WITHOUT_SPEC else ["--streams", str(platform.streams)]
    return CliRunner().invoke(app, [*command, *streams])


def done(home: StreamHome, verb: str) -> OperationRecord:
    """The record of an operation that made the active lineage."""
    record = replace(
        begun_restore(savepoint=""),
        verb=verb,
        step=Reached.ACTIVATED,
        lineage_to=start_lineage(home),
        outcome=Ending.DONE,
    )
    write_operation(home, record)
    return record


@pytest.fixture
def home(platform: Platform) -> StreamHome:
    added = platform.add("clicks")
    added.prepare()
    added.prepare_data()
    return added


@pytest.mark.parametrize("verb", list(COMMANDS))
def test_a_verb_that_is_typed_again_says_that_it_is_done(
    platform: Platform, home: StreamHome, verb: str, reviewed: Reviewed
) -> None:
    record = done(home, verb)
    result = typed(platform, verb, "--approve", record.digest)
    assert result.exit_code == 0, result.exception
    reviewed(result.output)
    assert read_operations(home) == [record]


def test_another_digest_another_verb_and_a_stream_that_has_gone_elsewhere_are_not_done(
    platform: Platform, home: StreamHome
) -> None:
    record = done(home, "restore")
    approved = ("--approve", record.digest)
    assert isinstance(typed(platform, "restore", "--approve", "0" * 16).exception, UnknownSavepoint)
    assert isinstance(typed(platform, "restore").exception, UnknownSavepoint)
    for other in (replace(record, verb="rescale"), replace(record, outcome=Ending.ABANDONED)):
        write_operation(home, other)
        assert isinstance(typed(platform, "restore", *approved).exception, UnknownSavepoint)
    write_operation(home, record)
    assert typed(platform, "restore", *approved).exit_code == 0
    start_lineage(home)
    assert isinstance(typed(platform, "restore", *approved).exception, UnknownSavepoint)
