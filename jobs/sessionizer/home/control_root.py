"""The place of streams' records, which Airflow and drivers share (docs/adr/0111). It is the home unless given.

It is a path, or the URI of a store with two primitives: create unless it exists, and replace whole. A store without
them would give one lease to two drivers, so only known stores are allowed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from sessionizer.errors import InvalidSpec
from sessionizer.home.roots import ALLOWED_DATA, AZURE_HOST, ON_HADOOP, folder_at, is_uri, object_store

if TYPE_CHECKING:
    from pathlib import Path

    from sessionizer.home.roots import ControlPath

CONTROL_VARIABLE: Final = "SESSIONIZER_CONTROL"
ALLOWED_CONTROL: Final = (
    "a path that Airflow and drivers share, hdfs://host:port/folder, s3://bucket/folder, gs://bucket/folder, or "
    "abfss://container@account.dfs.core.windows.net/folder. "
    "Other stores are not known to create a record only if it does not exist, in one step"
)
_FOLDER_OF_STORE: Final = re.compile(rf"((hdfs|s3|gs)://[^/]+|abfss://[^/@]+@[^/@.]+\.{re.escape(AZURE_HOST)})/.*[^/]")


def control_root(home: Path, given: str | None = None, field: str = CONTROL_VARIABLE) -> ControlPath:
    """Return the control root ``given``, else the one of ``$SESSIONIZER_CONTROL``, else the ``home``.

    Nothing is opened. Raises InvalidSpec for ``field``.
    """
    named = given or os.environ.get(CONTROL_VARIABLE)
    if not named:
        return home
    if is_uri(named) and not named.startswith("file:"):
        _require_known_store(named, field)
    try:
        return cast("ControlPath", folder_at(named, field))
    except InvalidSpec as error:
        raise InvalidSpec(field, error.value, error.allowed.replace(ALLOWED_DATA, ALLOWED_CONTROL)) from error


def _require_known_store(uri: str, field: str) -> None:
    password = urlsplit(uri).password
    if password is not None:
        raise InvalidSpec(field, uri.replace(password, "…"), ALLOWED_CONTROL)
    if not _FOLDER_OF_STORE.fullmatch(uri.rstrip("/")):
        raise InvalidSpec(field, uri, ALLOWED_CONTROL)
    scheme = urlsplit(uri).scheme
    if scheme not in ON_HADOOP:
        import fsspec  # noqa: PLC0415  only if control is in an object store

        try:
            fsspec.get_filesystem_class(scheme)
        except (ImportError, ValueError) as error:
            needed = f"pip install 'streaming-state[{object_store(uri)}]'"
            raise InvalidSpec(field, uri, f"{ALLOWED_CONTROL} ({needed})") from error
