"""An installation without anything in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer_airflow.project import Project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.from_environment({"SESSIONIZER_HOME": str(tmp_path)})
