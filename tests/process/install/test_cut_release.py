"""The code that golden files of a release may be cut from: that of its tag, and no other."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.places import REPOSITORY
from support.releases.cut_release import MADE_BY, RELEASES, require_tagged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Callable[..., str]:
    """A repository of one commit, in which ``git`` can be asked."""

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        done = subprocess.run(["git", "-C", str(tmp_path), *who, *words], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet")
    (tmp_path / "code.py").write_text("STEP = 1\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    return git


def test_a_release_is_cut_from_its_tag_only(tmp_path: Path, repository: Callable[..., str]) -> None:
    git = repository
    for version, refused in (("0.3.0.dev0", "is no release"), ("0.3.0", "there is no tag v0.3.0")):
        with pytest.raises(SystemExit, match=refused):
            require_tagged(tmp_path, version)
    git("tag", "-a", "v0.3.0", "-m", "v0.3.0")
    assert require_tagged(tmp_path, "0.3.0") == git("rev-parse", "HEAD")
    (tmp_path / "code.py").write_text("STEP = 2\n")
    with pytest.raises(SystemExit, match="files differ from the commit"):
        require_tagged(tmp_path, "0.3.0")
    git("commit", "--quiet", "-am", "two")
    with pytest.raises(SystemExit, match=r"is checked out\. Check out v0\.3\.0"):
        require_tagged(tmp_path, "0.3.0")


def test_the_record_of_a_release_names_the_commit_of_its_tag() -> None:
    """A clone may lack the tags."""
    for record in (json.loads(file.read_text()) for file in RELEASES.glob(f"*/{MADE_BY}")):
        asked = ["git", "-C", str(REPOSITORY), "rev-parse", "--verify", "--quiet", f"v{record['version']}^{{commit}}"]
        tagged = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        assert tagged in {"", record["commit"]}
