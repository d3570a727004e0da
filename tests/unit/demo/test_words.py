"""The texts that the demo prints lead to its own streams."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer_demo.local_airflow.installation import Installation
from sessionizer_demo.show.words import welcome
from support.expected.named_commands import faults
from support.places import REPOSITORY

if TYPE_CHECKING:
    import pytest


def test_the_commands_of_the_welcome_look_at_the_demos_own_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONIZER_HOME", raising=False)
    installation = Installation(root=tmp_path / "demo", port=1)
    lines = [shlex.split(line) for line in welcome(installation, "clicks").splitlines() if line.startswith("  ")]
    exported = dict(word.split("=", 1) for words in lines if words[0] == "export" for word in words[1:])
    typed = next(words for words in lines if Path(words[0]).name == "sessionizer")
    assert exported["SESSIONIZER_HOME"] == installation.environment()["SESSIONIZER_HOME"]
    assert (Path(exported["SESSIONIZER_STREAMS"]) / "clicks.yaml").is_relative_to(REPOSITORY)
    assert list(faults(typed[1:])) == []
