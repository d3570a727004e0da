"""Jars from a registry that serves other bytes than those of the release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.errors import JarsNotFetched
from sessionizer.launch.jars import fetch_jars, jar_names

if TYPE_CHECKING:
    from pathlib import Path

IVY = """#!/bin/sh
for last; do case $last in */\\[artifact\\]*) to=${{last%/*}} ;; esac; done
for name in {names}; do echo other >"$to/$name"; done
"""


def test_jars_with_other_content_never_get_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(IVY.format(names=" ".join(jar_names())))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    with pytest.raises(JarsNotFetched, match="SHA-256"):
        fetch_jars(tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []
