"""Where the platform's files are, for code that runs inside Airflow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.control.stream_home import platform_home

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Project:
    """`application` is the spark-submit target, `jars` the folder of jars that it needs, `home` holds all data."""

    application: Path
    streams: Path
    jars: Path
    home: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Project:
        """`SESSIONIZER_APPLICATION`, `_STREAMS` and `_JARS` move what is beside the source, `_HOME` the data."""
        return cls(
            application=Path(environment.get("SESSIONIZER_APPLICATION", SOURCE_ROOT / "jobs" / "main.py")).absolute(),
            streams=Path(environment.get("SESSIONIZER_STREAMS", SOURCE_ROOT / "dags" / "streams")).absolute(),
            jars=Path(environment.get("SESSIONIZER_JARS", SOURCE_ROOT / ".jars" / "spark")).absolute(),
            home=platform_home(),
        )
