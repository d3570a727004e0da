"""Places of the platform's files, for code that runs inside Airflow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer.errors import InvalidSpec
from sessionizer.home.roots import (
    CONTROL_VARIABLE,
    DATA_VARIABLE,
    HOME_VARIABLE,
    control_root,
    data_root,
    home_at,
    is_uri,
    uri_of,
)
from sessionizer.home.stream_home import StreamHome
from sessionizer.launch.installation import APPLICATION, PACKAGE, jar_folder
from sessionizer.launch.package_archive import PackageArchive
from sessionizer_airflow.errors import HomeMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

STREAMS_VARIABLE = "SESSIONIZER_STREAMS"


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Folders of the platform, for a job. All are absolute, because a job's working directory is not ours.

    ``data``: the data root, a path or a URI. ``control``: the control root. Either is None if it is the home.
    """

    home: Path
    streams: Path
    data: str | None = None
    control: str | None = None

    def __post_init__(self) -> None:
        for field in ("home", "streams"):
            path: Path = getattr(self, field)
            if not path.is_absolute():
                raise InvalidSpec(field, str(path), "an absolute path")
        for field in ("data", "control"):
            root: str | None = getattr(self, field)
            if root is not None and not (is_uri(root) or root.startswith("/")):
                raise InvalidSpec(field, root, "an absolute path, or a URI")

    def list_global_options(self) -> tuple[str, ...]:
        """Return the options that precede every verb.

        They are passed because a job in a cluster has no environment of ours.
        """
        return () if self.control is None else ("--control", self.control)

    def argv(self) -> tuple[str, ...]:
        """Return the options that name the folders."""
        return ("--home", str(self.home), "--streams", str(self.streams), *self._data_option())

    def argv_without_streams(self) -> tuple[str, ...]:
        """Return the options without the folder of specs, for verbs of a stream that ran and keeps its spec."""
        return ("--home", str(self.home), *self._data_option())

    def _data_option(self) -> tuple[str, ...]:
        return () if self.data is None else ("--data", self.data)


@dataclass(frozen=True, kw_only=True)
class Project:
    """Places of the platform.

    ``application`` is the spark-submit target, ``jars`` its folder of jars, ``home`` the records.

    ``data``: the data root, a path or a URI, which only drivers open. ``control``: the control root, with the records.
    Either is None if it is the home.
    """

    application: Path
    streams: Path
    jars: Path
    home: Path
    data: str | None = None
    control: str | None = None

    @property
    def archive(self) -> PackageArchive:
        """The package of the application, for clusters that copy it to their machines.

        A site's own application has its package beside it.
        """
        package = PACKAGE if self.application == APPLICATION else self.application.parent / PACKAGE.name
        return PackageArchive(package, self.home / "packages")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ, streams: Path | None = None) -> Project:
        """Read the places from the environment.

        ``SESSIONIZER_APPLICATION`` and ``_JARS`` replace places of the installed package. ``_HOME`` is required.

        ``streams``: the absolute folder of specs, which a DAG file gives. None: as ``SESSIONIZER_STREAMS`` says, else
        ``streams`` in Airflow's folder of DAGs.

        Raises InvalidSpec: the home is a URI, or ``SESSIONIZER_DATA`` is no data root, or relative, or
        ``SESSIONIZER_CONTROL`` no control root.
        Raises HomeMissing: the home is not set or relative. Airflow's processes run in folders of their own, so each
        would use another home, and a stream would run twice.
        """
        given = environment.get(HOME_VARIABLE, "")
        home = home_at(given)
        if not Path(given).expanduser().is_absolute():
            raise HomeMissing(HOME_VARIABLE)
        return cls(
            application=Path(environment.get("SESSIONIZER_APPLICATION", APPLICATION)).absolute(),
            streams=(streams or _streams(environment)).absolute(),
            jars=jar_folder(environment),
            home=home,
            data=_data(environment.get(DATA_VARIABLE), home),
            control=_control(environment.get(CONTROL_VARIABLE), home),
        )

    @property
    def folders(self) -> Folders:
        """The folders that a job is given."""
        return Folders(home=self.home, streams=self.streams, data=self.data, control=self.control)

    def home_of(self, stream: str) -> StreamHome:
        """Return the home of a stream. Raises InvalidSpec."""
        return StreamHome.of(self.home, stream, data_root(self.data, self.home))


def _streams(environment: Mapping[str, str]) -> Path:
    """Return the folder of specs for processes of Airflow that parse no DAG file."""
    given = environment.get(STREAMS_VARIABLE)
    if given:
        return Path(given)
    airflow = Path(environment.get("AIRFLOW_HOME") or "~/airflow")
    return Path(environment.get("AIRFLOW__CORE__DAGS_FOLDER") or airflow / "dags").expanduser() / "streams"


def _control(given: str | None, home: Path) -> str | None:
    """Return the control root as drivers get it."""
    _require_absolute(CONTROL_VARIABLE, given)
    root = control_root(home, given) if given else home
    return None if root == home else uri_of(root)


def _data(given: str | None, home: Path) -> str | None:
    """Return the data root as drivers get it."""
    _require_absolute(DATA_VARIABLE, given)
    root = data_root(given, home)
    return None if root is None else uri_of(root)


def _require_absolute(variable: str, given: str | None) -> None:
    """Check that a path is absolute, because Airflow's processes run in folders of their own. Raises InvalidSpec."""
    if given and not is_uri(given) and not Path(given).expanduser().is_absolute():
        raise InvalidSpec(variable, given, "an absolute path, or a URI")
