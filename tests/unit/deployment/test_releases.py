"""The environment of the next driver: the release that a lineage needs, and the installed ones."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessionizer.control.operation import new_operation
from sessionizer.control.records.operation_record import Ending, write_operation
from sessionizer.deployment import releases
from sessionizer.deployment.releases import (
    RELEASES_VARIABLE,
    InstalledRelease,
    ReleaseChoice,
    choose_release,
    list_installed_releases,
    programs_needed,
    release_for_next_start,
    release_to_return,
)
from sessionizer.errors import InvalidSpec
from sessionizer.launch.installation import JARS_VARIABLE, PYTHON_VARIABLE
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.canary.canary_record import begin_canary
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.canary.unstarted import fail_unstarted
from sessionizer.lineage.fingerprint import DELTA, RELEASE, SPARK, present_fingerprint, write_fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sessionizer.home.stream_home import StreamHome

HERE = {RELEASE: "0.2.0", SPARK: "4.2.1", DELTA: "4.4.0"}
BEFORE = {RELEASE: "0.1.0", SPARK: "4.2.0", DELTA: "4.4.0"}
OTHER_LINE = {**BEFORE, SPARK: "4.1.1"}
PACKAGES = {"streaming-state": "0.1.0", "pyspark": "4.2.0", "delta-spark": "4.4.0", "pandas": "2.3.3"}
LISTED = InstalledRelease(Path("/releases/a/bin/python"), BEFORE)
LISTED_LINE = InstalledRelease(Path("/releases/b/bin/python"), OTHER_LINE)


@pytest.mark.parametrize(
    ("needed", "returned", "chosen"),
    [
        (HERE, True, ReleaseChoice()),
        (HERE, False, ReleaseChoice()),
        ({}, True, ReleaseChoice()),
        # a restart takes a new release, a rollback does not
        (BEFORE, False, ReleaseChoice()),
        (BEFORE, True, ReleaseChoice(LISTED)),
        ({**BEFORE, SPARK: "4.2.1"}, True, ReleaseChoice(lacks={**BEFORE, SPARK: "4.2.1"})),
        # no driver of another line starts at all
        (OTHER_LINE, False, ReleaseChoice(LISTED_LINE)),
        (OTHER_LINE, True, ReleaseChoice(LISTED_LINE)),
        ({**OTHER_LINE, SPARK: "4.0.1"}, False, ReleaseChoice(lacks={**OTHER_LINE, SPARK: "4.0.1"}, is_refused=True)),
        # a lineage of an early release keeps no release
        ({SPARK: "4.2.0", DELTA: "4.4.0"}, True, ReleaseChoice(LISTED)),
    ],
)
def test_the_environment_follows_from_the_lineage(
    needed: Mapping[str, str], returned: bool, chosen: ReleaseChoice
) -> None:
    assert choose_release(needed, HERE, [LISTED, LISTED_LINE], returned=returned) == chosen


def test_what_to_install_is_said_exactly() -> None:
    lacking = choose_release(BEFORE, HERE, [], returned=True)
    packages = shlex.split(lacking.remedy.split("`")[1].removeprefix("pip install "))
    assert packages == ["streaming-state[driver]==0.1.0", "pyspark==4.2.0", "delta-spark==4.4.0"]
    assert lacking.remedy in lacking.place
    assert "/releases/a" in choose_release(BEFORE, HERE, [LISTED], returned=True).place
    assert (ReleaseChoice().remedy, ReleaseChoice().place) == ("", "")


@pytest.mark.parametrize("given", ["releases", "/no/such/folder"])
def test_a_folder_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(InvalidSpec) as raised:
        list_installed_releases({RELEASES_VARIABLE: given})
    assert (raised.value.field, raised.value.value) == (RELEASES_VARIABLE, given)


def folder_of_releases(folder: Path, monkeypatch: pytest.MonkeyPatch, **packages: Mapping[str, str]) -> dict[str, str]:
    """The variables of a site with these environments: no process asks them."""
    for name in packages:
        python = folder / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
    (folder / "notes").mkdir()
    monkeypatch.setattr(releases, "package_versions", lambda python, *_: packages.get(Path(python).parts[-3]))
    return {RELEASES_VARIABLE: str(folder)}


def test_versions_are_read_from_the_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"pyspark": "4.1.1"}
    environment = folder_of_releases(tmp_path, monkeypatch, first=PACKAGES, unrelated=other)
    assert list_installed_releases(environment) == [InstalledRelease(tmp_path / "first" / "bin" / "python", BEFORE)]
    assert list_installed_releases({}) == []


def test_a_driver_of_another_environment_finds_nothing_of_the_default_one(tmp_path: Path) -> None:
    release = InstalledRelease(tmp_path / "bin" / "python", BEFORE)
    default = {"PATH": "/bin", "SPARK_HOME": "/spark", "PYTHONPATH": "/src", PYTHON_VARIABLE: "/p", JARS_VARIABLE: "/j"}
    found = release.environment(default)
    assert found == {"PATH": "/bin", PYTHON_VARIABLE: str(release.python), JARS_VARIABLE: "/j"}
    jars = tmp_path / "share" / "streaming-state" / "jars"
    jars.mkdir(parents=True)
    assert release.environment(default)[JARS_VARIABLE] == str(jars)


@pytest.fixture
def returned(home: StreamHome) -> str:
    """The lineage that a command left, which ran by release 0.1.0 on Spark 4.2.0."""
    before = start_lineage(home)
    write_fingerprint(home, before, replace(present_fingerprint(), versions={**BEFORE, RELEASE: "0.0.9"}))
    after = make_lineage(home, None)
    begin_canary(home, after, "upgrade", before, CanaryTerms(goes_back=True))
    activate_lineage(home, after, before)
    return before


def test_the_next_driver_gets_the_environment_of_the_lineage_that_it_returns_to(
    home: StreamHome, returned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = {**PACKAGES, "streaming-state": "0.0.9"}
    environment = folder_of_releases(tmp_path / "releases", monkeypatch, old=packages)
    assert release_for_next_start(home, environment) == ReleaseChoice()
    fail_unstarted(home, _active(home), "its code does not load")
    chosen = release_for_next_start(home, environment).release
    assert chosen is not None
    assert chosen.python == tmp_path / "releases" / "old" / "bin" / "python"
    assert release_to_return(home, returned, environment).release == chosen


def test_after_a_rollback_by_hand_the_environment_stays_until_the_next_command(
    home: StreamHome, returned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = {**PACKAGES, "streaming-state": "0.0.9"}
    environment = folder_of_releases(tmp_path / "releases", monkeypatch, old=packages)
    left = _active(home)
    done = new_operation(home, "rollback", "d", "alice", (left, 3))
    write_operation(home, replace(done, outcome=Ending.DONE, lineage_to=returned))
    activate_lineage(home, returned, None)
    assert release_for_next_start(home, environment).release is not None
    later = new_operation(home, "upgrade", "e", "alice", (returned, 4))
    write_operation(home, replace(later, id="20991231T235959-aaaaaa", outcome=Ending.DONE, lineage_to=returned))
    assert release_for_next_start(home, environment) == ReleaseChoice()


def test_a_rollback_says_which_programs_the_lineage_before_needs(
    home: StreamHome, returned: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, remedy = programs_needed(home, returned)
    assert "release 0.0.9" in here
    assert '"streaming-state[driver]==0.0.9"' in remedy
    packages = {**PACKAGES, "streaming-state": "0.0.9"}
    environment = folder_of_releases(tmp_path / "releases", monkeypatch, old=packages)
    monkeypatch.setenv(RELEASES_VARIABLE, environment[RELEASES_VARIABLE])
    (line,) = programs_needed(home, returned)
    assert str(tmp_path / "releases" / "old") in line
    assert programs_needed(home, _active(home)) == ()


def _active(home: StreamHome) -> str:
    return next(name.name for name in home.lineage_records.iterdir() if (name / "trial.json").exists())
