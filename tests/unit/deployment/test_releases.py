"""The environment of the next driver: the release that a lineage needs, and the installed ones."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.causes.table import cause_of_error
from sessionizer.deployment import releases
from sessionizer.deployment.releases import (
    RELEASES_VARIABLE,
    InstalledRelease,
    ReleaseChoice,
    choose_release,
    is_taken_at_restart,
    list_installed_releases,
    programs_needed,
    release_for_next_start,
    release_to_return,
    require_release,
)
from sessionizer.errors import InvalidSpec, RetryEffect, UpgradeWaits
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import JARS_VARIABLE, PYTHON_VARIABLE
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.canary.canary_record import begin_canary, fail_unstarted
from sessionizer.lineage.canary.judge import CanaryTerms
from sessionizer.lineage.fingerprint import (
    DELTA,
    RELEASE,
    SPARK,
    Fingerprint,
    note_programs,
    present_fingerprint,
    read_fingerprint,
    write_fingerprint,
)
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.document.upgrades import AtRestart
from sessionizer.stream_spec.spec_folder import SpecFile
from support.places import known
from support.streams.stage import clicks_spec

HERE = {RELEASE: "0.2.0", SPARK: "4.2.1", DELTA: "4.4.0"}
BEFORE = {RELEASE: "0.1.0", SPARK: "4.2.0", DELTA: "4.4.0"}
OTHER_LINE = {**BEFORE, SPARK: "4.1.1"}
PACKAGES = {"streaming-state": "0.1.0", "pyspark": "4.2.0", "delta-spark": "4.4.0", "pandas": "2.3.3"}
LISTED = InstalledRelease(Path("/releases/a/bin/python"), BEFORE)
LISTED_LINE = InstalledRelease(Path("/releases/b/bin/python"), OTHER_LINE)


@pytest.mark.parametrize(
    ("needed", "chosen"),
    [
        (HERE, ReleaseChoice()),
        ({}, ReleaseChoice()),
        (BEFORE, ReleaseChoice(LISTED)),
        ({**BEFORE, SPARK: "4.2.1"}, ReleaseChoice(lacks={**BEFORE, SPARK: "4.2.1"})),
        (OTHER_LINE, ReleaseChoice(LISTED_LINE)),
        # a lineage of an early release keeps no release
        ({SPARK: "4.2.0", DELTA: "4.4.0"}, ReleaseChoice(LISTED)),
    ],
)
def test_the_environment_follows_from_the_lineage(needed: Mapping[str, str], chosen: ReleaseChoice) -> None:
    assert choose_release(needed, HERE, [LISTED, LISTED_LINE]) == chosen


ANY, PATCH, SAME_CODE = AtRestart.ANY, AtRestart.PATCH, AtRestart.SAME_CODE


@pytest.mark.parametrize(
    ("kept", "now", "taken_by"),
    [
        # release and code: the smallest permission by which a restart takes it
        (("0.3.0", "a"), ("0.3.0", "a"), SAME_CODE),
        (("0.3.0", "a"), ("0.3.1", "a"), SAME_CODE),
        (("0.3.0", "a"), ("0.4.0", "a"), SAME_CODE),
        (("0.3.0", "a"), ("0.3.1", "b"), PATCH),
        (("0.3.1", "b"), ("0.3.0", "a"), PATCH),
        (("0.3.0", "a"), ("0.4.0", "b"), ANY),
        (("0.3.0", ""), ("0.4.0", ""), ANY),  # unknown code is no same code
        (("0.3.0", "a"), ("0.3.0", "b"), ANY),  # a release that was edited in place
        (("0.3.0.dev0", "a"), ("0.3.0.dev0", "b"), SAME_CODE),  # a checkout
        (("0.3.0.dev0", "a"), ("0.4.0.dev0", "b"), ANY),
        (("0.3.0", "a"), ("0.4.0.dev0", "b"), ANY),
        ((None, ""), ("0.3.0", "a"), SAME_CODE),  # a lineage of an early release
    ],
)
def test_a_restart_takes_what_the_spec_allows(
    kept: tuple[str | None, str], now: tuple[str, str], taken_by: AtRestart
) -> None:
    sides = [Fingerprint(code, {RELEASE: release} if release else {}) for release, code in (kept, now)]
    taken = [allowed for allowed in AtRestart if is_taken_at_restart(sides[0], sides[1], allowed)]
    assert taken == list(AtRestart)[list(AtRestart).index(taken_by) :]


@pytest.mark.parametrize("policy", ["approve", "apply", "refuse", None])
def test_a_driver_of_another_release_waits_for_the_upgrade(home: StreamHome, policy: str | None) -> None:
    """Whatever the policy of the window: a restart is no window."""
    lineage = start_lineage(home)
    note_programs_of(home, lineage, "9.8.7")
    with pytest.raises(UpgradeWaits) as raised:
        require_release(home, spec_file({"window": "Sun 03:00-05:00", "policy": policy}))
    assert (raised.value.kept, raised.value.lineage) == ("9.8.7", lineage)
    assert cause_of_error(raised.value).verdict is RetryEffect.TRANSIENT
    assert read_fingerprint(home, lineage).versions[RELEASE] == "9.8.7"
    with pytest.raises(UpgradeWaits):
        require_release(home, SpecFile("clicks", problem=InvalidSpec("rules.gap_timeout", "x", "a duration")))
    require_release(home, spec_file({"at_restart": "any"}))
    note_programs(home, lineage)  # as an upgrade does
    require_release(home, spec_file({"policy": None}))


def spec_file(upgrades: dict[str, str | None]) -> SpecFile:
    return SpecFile("clicks", StreamSpec.model_validate({**clicks_spec(), "name": "clicks", "upgrades": upgrades}))


def note_programs_of(home: StreamHome, lineage: str, release: str) -> None:
    versions = {**present_fingerprint().versions, RELEASE: release}
    write_fingerprint(home, lineage, Fingerprint("other", versions))


def test_what_to_install_is_said_exactly() -> None:
    lacking = choose_release(BEFORE, HERE, [])
    packages = shlex.split(lacking.remedy.split("`")[1].removeprefix("pip install "))
    assert packages == ["streaming-state[driver]==0.1.0", "pyspark==4.2.0", "delta-spark==4.4.0"]
    assert lacking.remedy in lacking.place
    assert "/releases/a" in choose_release(BEFORE, HERE, [LISTED]).place
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
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a site with release 0.0.9."""
    packages = {**PACKAGES, "streaming-state": "0.0.9"}
    return folder_of_releases(tmp_path / "releases", monkeypatch, old=packages)


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
    home: StreamHome, returned: str, environment: dict[str, str], tmp_path: Path
) -> None:
    assert release_for_next_start(home, environment) == ReleaseChoice()
    fail_unstarted(home, _active(home), "its code does not load")
    chosen = known(release_for_next_start(home, environment).release)
    assert chosen.python == tmp_path / "releases" / "old" / "bin" / "python"
    assert release_to_return(home, returned, environment).release == chosen


def test_a_driver_starts_by_the_recorded_release_until_an_upgrade(
    home: StreamHome, environment: dict[str, str]
) -> None:
    lineage = start_lineage(home)
    write_fingerprint(home, lineage, replace(present_fingerprint(), versions={**BEFORE, RELEASE: "0.0.9"}))
    assert release_for_next_start(home, environment).release is not None
    assert release_for_next_start(home, {}) == ReleaseChoice()
    note_programs(home, lineage)
    assert release_for_next_start(home, environment) == ReleaseChoice()


def test_a_rollback_says_which_programs_the_lineage_before_needs(
    home: StreamHome, returned: str, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, remedy = programs_needed(home, returned)
    assert "release 0.0.9" in here
    assert '"streaming-state[driver]==0.0.9"' in remedy
    monkeypatch.setenv(RELEASES_VARIABLE, environment[RELEASES_VARIABLE])
    (line,) = programs_needed(home, returned)
    assert str(tmp_path / "releases" / "old") in line
    assert programs_needed(home, _active(home)) == ()


def _active(home: StreamHome) -> str:
    return next(name.name for name in home.lineage_records.iterdir() if (name / "canary.json").exists())
