"""``sessionizer diff`` over a real repository: no Spark, no home of the stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from support.places import REPOSITORY
from support.streams.stage import clicks_spec

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT_IDENTITY = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b")


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """Specs in a folder of their own of a repository, with one commit: the key is ``user_id``."""
    folder = tmp_path / "our specs"
    folder.mkdir()
    write_spec(folder, "user_id")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, *AUTHOR, "commit", "-qm", "first")
    return folder


def write_spec(folder: Path, key: str) -> None:
    spec = {"name": "clicks", **clicks_spec(), "mapping": {**clicks_spec()["mapping"], "key": key}}
    (folder / "clicks.yaml").write_text(yaml.safe_dump(spec))


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, env={**os.environ, **WITHOUT_IDENTITY})


def diff(specs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(REPOSITORY / "jobs" / "main.py"), "diff", "--streams", str(specs), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=specs)


def test_a_changed_key_is_found_against_the_commit_before(specs: Path) -> None:
    assert diff(specs, "--against", "HEAD").returncode == 0
    write_spec(specs, "device")
    found = diff(specs, "clicks", "--against", "HEAD", "--json")
    assert found.returncode == 10, found.stderr
    (told,) = json.loads(found.stdout)
    assert [(each["name"], each["verdict"]) for each in told["differences"]] == [("mapping.key", "partial")]
    assert told["unaccepted"] == ["mapping.key"]
    assert {"open sessions", "deciding code"} <= set(told["unseen"])
    (specs.parent / "copy").mkdir()
    write_spec(specs.parent / "copy", "device")
    assert diff(specs, "--against", str(specs.parent / "copy")).returncode == 0


@pytest.mark.parametrize("ref", ["nowhere", "--output=/tmp/x", "HEAD:our specs"])
def test_an_unusable_ref_is_refused_with_a_code_of_its_own(specs: Path, ref: str) -> None:
    found = diff(specs, f"--against={ref}")
    assert found.returncode == 2
    assert "git ref" in found.stderr


@pytest.mark.parametrize(
    ("streams", "kinds", "code"),
    [
        (["clicks", "visits"], {"clicks": None, "visits": "stream added"}, 0),
        (["visits"], {"clicks": "stream renamed", "visits": "stream added"}, 11),
        ([], {"clicks": "stream removed"}, 10),
    ],
)
def test_a_spec_that_came_or_went_is_a_difference(
    specs: Path, streams: list[str], kinds: dict[str, str | None], code: int
) -> None:
    text = yaml.safe_load((specs / "clicks.yaml").read_text())
    (specs / "clicks.yaml").unlink()
    for name in streams:
        (specs / f"{name}.yaml").write_text(yaml.safe_dump({**text, "name": name}))
    found = diff(specs, "--against", "HEAD", "--json")
    assert found.returncode == code, found.stderr
    told = json.loads(found.stdout)
    assert {each["stream"]: next((one["kind"] for one in each["differences"]), None) for each in told} == kinds


def test_the_folder_of_specs_of_a_checkout_stands_for_the_checkout() -> None:
    folder = REPOSITORY / "dags" / "streams"
    found = diff(folder, "clicks", "--against", str(folder), "--json")
    assert found.returncode == 0, found.stderr
    assert "deciding code" not in json.loads(found.stdout)[0]["unseen"]
