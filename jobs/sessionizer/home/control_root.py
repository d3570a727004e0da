"""The control root: the place of streams' records, which Airflow and drivers share (docs/adr/0111).

It is a path, by default the home, or the URI of a store with two primitives: create unless it exists, and replace
whole. A store without them would give one lease to two drivers, so only known stores are allowed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from sessionizer.errors import InvalidSpec
from sessionizer.home.data_root import ALLOWED as ALLOWED_FOR_DATA
from sessionizer.home.data_root import folder_at, is_uri

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

ControlPath: TypeAlias = "Path | UPath"

CONTROL_VARIABLE: Final = "SESSIONIZER_CONTROL"
ALLOWED: Final = (
    "a path that Airflow and drivers share, hdfs://host:port/folder, or s3://bucket/folder. "
    "Other stores are not known to create a record only if it does not exist, in one step"
)
_FOLDER_OF_STORE: Final = re.compile(r"(hdfs|s3)://[^/]+/.*[^/]")


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
        return folder_at(named, field)
    except InvalidSpec as error:
        raise InvalidSpec(field, error.value, error.allowed.replace(ALLOWED_FOR_DATA, ALLOWED)) from error


def _require_known_store(uri: str, field: str) -> None:
    password = urlsplit(uri).password
    if password is not None:
        raise InvalidSpec(field, uri.replace(password, "…"), ALLOWED)
    if not _FOLDER_OF_STORE.fullmatch(uri.rstrip("/")):
        raise InvalidSpec(field, uri, ALLOWED)
    if uri.startswith("s3:"):
        import fsspec  # noqa: PLC0415  only if control is in S3

        try:
            fsspec.get_filesystem_class("s3")
        except ImportError as error:
            raise InvalidSpec(field, uri, f"{ALLOWED} ({error})") from error
