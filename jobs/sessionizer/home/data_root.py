"""The data root: the place of lineages and tables, a path or a URI of any file system that Spark reads.

Drivers open files below it through universal-pathlib (docs/adr/0074): a path as a ``pathlib.Path``, a URI as a
``UPath``. Airflow never opens it, and only shows its place.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from sessionizer.errors import InvalidSpec
from sessionizer.home.disk.forks import keep_clients_over_forks

if TYPE_CHECKING:
    from upath import UPath

DataPath: TypeAlias = "Path | UPath"

DATA_VARIABLE: Final = "SESSIONIZER_DATA"
ALLOWED: Final = (
    "a path, or a URI without credentials that Spark and fsspec read, such as hdfs://namenode:8020/sessionizer"
)
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_ON_HADOOP: Final = ("hdfs", "viewfs")


def is_uri(text: str) -> bool:
    """Whether the place has a scheme, such as ``hdfs://``. ``Path`` would take it for a relative path."""
    return _URI.match(text) is not None


def data_root(given: str | None, home: Path, field: str = DATA_VARIABLE) -> DataPath | None:
    """Return the data root ``given`` by the environment or as an option. None if it is the ``home`` itself.

    Nothing is opened. Raises InvalidSpec for ``field`` if the URI would lose a part, or holds a password.
    """
    if not given:
        return None
    root = folder_at(given, field)
    return None if root == home.absolute() else root


def folder_at(given: str, field: str = DATA_VARIABLE) -> DataPath:
    """Return the folder at a path or a URI. Nothing is opened. Raises InvalidSpec for ``field``."""
    return _parse_uri(given, field) if is_uri(given) else Path(given).expanduser().absolute()


def uri_of(path: DataPath) -> str:
    """Return the text for ``path`` that Spark and messages use: a URI, or a local path without a scheme.

    ``str`` loses the host of ``hdfs://``.
    """
    if isinstance(path, Path):
        return str(path)
    if path.protocol not in _ON_HADOOP:
        return str(path).rstrip("/")
    options = path.storage_options
    user = f"{options['user']}@" if options.get("user") else ""
    port = f":{options['port']}" if options.get("port") else ""
    return f"{path.protocol}://{user}{options.get('host') or ''}{port}{path.path}"


def add_scheme(path: DataPath) -> str:
    """Return ``path`` with a scheme, as Spark itself writes it, also a local one."""
    return f"file:{path}" if isinstance(path, Path) else uri_of(path)


def is_local(path: DataPath) -> bool:
    """Whether ``path`` is in a file system that is mounted here."""
    return isinstance(path, Path)


def _parse_uri(given: str, field: str) -> DataPath:
    parts = urlsplit(given)
    if parts.password is not None:
        shown = given.replace(parts.password, "…")
        raise InvalidSpec(field, shown, ALLOWED)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    from upath import UPath  # noqa: PLC0415  a tenth of a second, only for such a root

    text = given.rstrip("/")
    keep_clients_over_forks()
    try:
        # for an object store fsspec would return an old listing; HDFS's client keeps none, and knows no such option
        root = UPath(text) if parts.scheme in _ON_HADOOP else UPath(text, use_listings_cache=False)
    except (ValueError, ImportError) as error:
        raise InvalidSpec(field, given, f"{ALLOWED} ({error})") from error
    if uri_of(root) != text:
        raise InvalidSpec(field, given, f"{ALLOWED}. Of this one fsspec understands {uri_of(root)}")
    return root
