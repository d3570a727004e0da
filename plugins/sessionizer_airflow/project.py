"""Where the platform's files are, for code that runs inside Airflow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.home.platform_home import HOME_VARIABLE
from sessionizer.launch.package_archive import PackageArchive
from sessionizer_airflow.errors import HomeMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Project:
    """``application`` is the spark-submit target, ``jars`` the folder of jars it needs, ``home`` holds all data."""

    application: Path
    streams: Path
    jars: Path
    home: Path

    @property
    def archive(self) -> PackageArchive:
        """The package beside the application, for clusters that hand it on."""
        return PackageArchive(self.application.parent / "sessionizer", self.home / "packages")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Project:
        """``SESSIONIZER_APPLICATION``, ``_STREAMS``, ``_JARS`` move what is beside the source; ``_HOME`` is required.

        Raises HomeMissing: the processes of Airflow run in folders of their own, and a home that follows the folder
            would be another one in each: a stream would run twice.
        """
        home = Path(environment.get(HOME_VARIABLE, "")).expanduser()
        if not home.is_absolute():
            raise HomeMissing(HOME_VARIABLE)
        return cls(
            application=Path(environment.get("SESSIONIZER_APPLICATION", SOURCE_ROOT / "jobs" / "main.py")).absolute(),
            streams=Path(environment.get("SESSIONIZER_STREAMS", SOURCE_ROOT / "dags" / "streams")).absolute(),
            jars=Path(environment.get("SESSIONIZER_JARS", SOURCE_ROOT / ".jars" / "spark")).absolute(),
            home=home,
        )
