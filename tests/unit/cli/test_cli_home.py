"""A home that was copied writes nothing outside of itself until a user says that it was moved."""

import shutil
from dataclasses import replace

import pytest
from typer.testing import CliRunner, Result

from sessionizer.cli.app import app
from sessionizer.cli.state_commands.operation_run import carry_out
from sessionizer.control.operation import new_operation
from sessionizer.control.records.supervision_records import read_desired
from sessionizer.errors import HomeCopied, InvalidSpec
from sessionizer.home.home_identity import home_id, require_home_here
from sessionizer.home.stream_home import StreamHome
from support.processes.fabricated_platform import Platform
from support.verbs.scripted_runner import ScriptedRunner


@pytest.fixture
def copy(platform: Platform) -> Platform:
    """A copy of a home that ran."""
    home = platform.add("visits")
    home.prepare()
    home_id(home.control_base)
    return replace(platform, home=shutil.copytree(platform.home, platform.home.with_name("copy")))


def shown(platform: Platform, *flags: str) -> Result:
    """The result of `sessionizer home` there."""
    return CliRunner().invoke(app, ["home", "--home", str(platform.home), *flags])


def test_the_command_shows_a_copy_and_notes_a_move(platform: Platform, copy: Platform) -> None:
    identity = home_id(platform.home)
    assert shown(platform).stdout.startswith(f"home {identity} is at {platform.home}")
    told = shown(copy).stdout
    assert str(platform.home) in told
    assert str(copy.home) in told
    with pytest.raises(HomeCopied):
        require_home_here(copy.home)
    assert shown(copy, "--moved-here").exit_code == 0
    require_home_here(copy.home)
    assert shown(copy).stdout.startswith(f"home {identity} is at {copy.home}")


def test_a_folder_in_which_no_stream_ran_is_no_home(platform: Platform) -> None:
    result = shown(platform, "--moved-here")
    assert isinstance(result.exception, InvalidSpec)
    assert not (platform.home / "home.json").exists()


def test_no_command_takes_the_stream_of_a_copy_whose_data_is_outside(copy: Platform) -> None:
    home = StreamHome.of(copy.home, "visits", copy.home.with_name("data"))
    record = new_operation(home, "rollback", "0" * 16, "someone", ("20261121T105501-3fa9c2", 1))
    before = read_desired(home)
    with pytest.raises(HomeCopied):
        carry_out(home, record, "a test", 1, ScriptedRunner(home=home, work=lambda *_: pytest.fail("taken")))
    assert read_desired(home) == before
