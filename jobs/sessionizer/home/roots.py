"""The three roots of the platform's files: its home, the data root and the control root.

The data root has lineages and tables, at a path or a URI of any file system that Spark reads. Drivers open files below
it through universal-pathlib (docs/adr/0074). Airflow only shows its place.

The control root has streams' records, which Airflow and drivers share (docs/adr/0111). A store needs two primitives:
create unless it exists, and replace whole. One without them would give one lease to two drivers, so only known stores
are allowed.

Clients of HDFS need care in a process that forks. fsspec forgets its file systems in every forked child. With the last
reference hdfs-native ends its threads, and waits for ever for those that a child does not have. Python starts Spark's
JVM by such a fork. A client that the child opens itself works, but hdfs-native keeps connections to DataNodes for all
clients of a process, each for 3 s. The parent's never answer in the child.

Hadoop's connectors to object stores are set by the variables that Python's clients read as well. No setting holds a
secret. S3A finds its keys in the variables by itself. For Azure the setting names the variable.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias, cast
from urllib.parse import unquote, urlsplit

from sessionizer.errors import InvalidSpec

if TYPE_CHECKING:
    from upath import UPath


class DataPath(Protocol):
    """A ``pathlib.Path`` or ``UPath`` of the data root. Only ``data_files`` opens it: stores fail in their own ways."""

    @property
    def name(self) -> str:
        """Its last part."""

    @property
    def parent(self) -> Self:
        """The folder that it is in."""

    def __truediv__(self, name: str, /) -> Self:
        """Return the path of ``name`` below this one."""

    def __hash__(self) -> int: ...

    def as_posix(self) -> str:
        """Return it with slashes."""


ControlPath: TypeAlias = "Path | UPath"

DATA_VARIABLE: Final = "SESSIONIZER_DATA"
ALLOWED_DATA: Final = (
    "a path, or a URI without credentials that Spark and fsspec read, such as hdfs://namenode:8020/sessionizer"
)
PATTERN: Final = re.compile(r"[*?\[\]{}\\`]")
NO_PATTERN: Final = "a path without any of * ? [ ] { } ` and \\, which Spark takes for a pattern or the end of a name"
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
ON_HADOOP: Final = ("hdfs", "viewfs")
"""Schemes of file systems that have folders, and rename in one step. Others are object stores."""
CLIENT_CONNECTS_WITHIN_S: Final = 5
CLIENT_READS_WITHIN_S: Final = 15
"""Limit of the wait of an object store's client for the next bytes of an answer. It then repeats the call."""
_ON_AZURE: Final = "abfss"
AZURE_HOST: Final = "dfs.core.windows.net"
_ALLOWED_ON_AZURE: Final = "abfss://container@account.dfs.core.windows.net/folder, which Spark and fsspec read alike"


class ObjectStore(StrEnum):
    """An object store: the name of its extra, and of its jars in ``jars.xml``."""

    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"


_BY_SCHEME: Final = {"s3": ObjectStore.S3, "s3a": ObjectStore.S3, "gs": ObjectStore.GCS, _ON_AZURE: ObjectStore.AZURE}


def object_store(uri: str | None) -> ObjectStore | None:
    """Return the object store of a URI. None for a path, or for another file system."""
    return _BY_SCHEME.get(uri.partition(":")[0]) if uri else None


def is_uri(text: str) -> bool:
    """Whether the place has a scheme, such as ``hdfs://``. ``Path`` would take it for a relative path."""
    return _URI.match(text) is not None


def data_root(given: str | None, home: Path, field: str = DATA_VARIABLE) -> DataPath | None:
    """Return the data root ``given``, None if it is the ``home``. Raises InvalidSpec for an odd one."""
    if not given:
        return None
    root = root_at(given, field)
    return None if root == home.absolute() else root


def root_at(given: str, field: str) -> DataPath:
    """Return the folder at a path or a URI, below which Spark reads tables. Raises InvalidSpec for ``field``."""
    root = folder_at(given, field)
    _require_no_pattern(str(root) if is_local(root) else urlsplit(given).path, field)
    return root


def folder_at(given: str, field: str = DATA_VARIABLE) -> DataPath:
    """Return the folder at a path or a URI. Nothing is opened. Raises InvalidSpec for ``field``."""
    return _parse_uri(given, field) if is_uri(given) else Path(given).expanduser().absolute()


def uri_of(path: DataPath) -> str:
    """Return the text of ``path`` for Spark and messages. ``str`` loses the host of hdfs, the account of abfss."""
    if isinstance(path, Path):
        return str(path)
    path = store_path(path)
    if path.protocol == _ON_AZURE and path.storage_options.get("account_name"):
        container, _, name = path.path.partition("/")
        return f"{_ON_AZURE}://{container}@{path.storage_options['account_name']}.{AZURE_HOST}/{name}".rstrip("/")
    if path.protocol not in ON_HADOOP:
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


def store_path(path: DataPath) -> UPath:
    """Return ``path``, which is not local, as the ``UPath`` that it is."""
    return cast("UPath", path)


def _parse_uri(given: str, field: str) -> DataPath:
    text = given.rstrip("/")
    try:
        parts = urlsplit(given)
        if parts.password is not None:
            raise InvalidSpec(field, given.replace(parts.password, "…"), ALLOWED_DATA)
        if parts.scheme == "file":
            return _parse_file_uri(given, field)
        if not parts.netloc and (parts.scheme in _BY_SCHEME or not parts.path.strip("/")):
            raise InvalidSpec(field, given, f"{ALLOWED_DATA}. This one names no place")  # a variable was empty
        from upath import UPath  # noqa: PLC0415  a tenth of a second, only for such a root

        keep_clients_over_forks()
        on_hadoop = parts.scheme in ON_HADOOP
        root: UPath = UPath(text) if on_hadoop else UPath(text, **_client_options(object_store(text)))
    except (ValueError, ImportError) as error:
        raise InvalidSpec(field, given, f"{ALLOWED_DATA} ({error})") from error
    if parts.scheme == _ON_AZURE and not root.storage_options.get("account_name"):
        raise InvalidSpec(field, given, _ALLOWED_ON_AZURE)
    if uri_of(root) != text:
        raise InvalidSpec(field, given, f"{ALLOWED_DATA}. Of this one fsspec understands {uri_of(root)}")
    return root


def _parse_file_uri(given: str, field: str) -> Path:
    """Return the path of ``file:/a`` or ``file:///a``. Raises InvalidSpec for a host, which ``file://a/b`` has."""
    host, slash, path = given.partition(":")[2].removeprefix("//").partition("/")
    if host not in {"", "localhost"} or not slash:
        raise InvalidSpec(field, given, "a path, or file:/// and an absolute path")
    return Path(f"/{unquote(path)}")


def _client_options(store: ObjectStore | None) -> dict[str, Any]:
    """Return fsspec's options for ``store``: no old listing, and an end to its waits. Azure has none for lists."""
    options: dict[str, Any] = {"use_listings_cache": False}
    if store is ObjectStore.S3:
        options["config_kwargs"] = {
            "connect_timeout": CLIENT_CONNECTS_WITHIN_S,
            "read_timeout": CLIENT_READS_WITHIN_S,
            "retries": {"total_max_attempts": 2},  # s3fs makes five of each
        }
    elif store is ObjectStore.GCS:
        from aiohttp import ClientTimeout  # noqa: PLC0415  only for such a root

        options["requests_timeout"] = ClientTimeout(
            sock_connect=CLIENT_CONNECTS_WITHIN_S, sock_read=CLIENT_READS_WITHIN_S
        )
    return options


_MODULE: Final = "hdfs_native.fsspec"
_CLASSES: Final = ("HdfsFileSystem", "ViewfsFileSystem")
_STALE_FOR_S: Final = 3.2
_kept: Final[list[Any]] = []
_forked_at: Final[list[float]] = []
"""Time at which a fork made this process, if its parent had clients."""


@cache
def keep_clients_over_forks() -> None:
    """Refer to each client once more at every fork from now on, so that the child lets none go."""
    os.register_at_fork(before=_keep, after_in_child=_remember)


def outlive_connections_of_the_parent() -> None:
    """Wait until the parent's connections to DataNodes are closed. In a forked child that may take seconds, once."""
    if _forked_at:
        time.sleep(max(0.0, _forked_at[0] + _STALE_FOR_S - time.monotonic()))


def _remember() -> None:
    if _kept:
        _forked_at[:] = [time.monotonic()]


def _keep() -> None:
    _kept[:] = _clients()


def _clients() -> Iterable[Any]:
    loaded = sys.modules.get(_MODULE)
    for name in _CLASSES if loaded else ():
        yield from getattr(loaded, name)._cache.values()  # noqa: SLF001  the one place where fsspec keeps them all


CONTROL_VARIABLE: Final = "SESSIONIZER_CONTROL"
ALLOWED_CONTROL: Final = (
    "a path that Airflow and drivers share, hdfs://host:port/folder, s3://bucket/folder, gs://bucket/folder, or "
    "abfss://container@account.dfs.core.windows.net/folder. "
    "Other stores are not known to create a record only if it does not exist, in one step"
)
_FOLDER_OF_STORE: Final = re.compile(rf"((hdfs|s3|gs)://[^/]+|abfss://[^/@]+@[^/@.]+\.{re.escape(AZURE_HOST)})/.*[^/]")


def control_root(home: Path, given: str | None = None, field: str = CONTROL_VARIABLE) -> ControlPath:
    """Return the control root: ``given``, else $SESSIONIZER_CONTROL, else ``home``. Raises InvalidSpec."""
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
    try:
        scheme, password = urlsplit(uri).scheme, urlsplit(uri).password
    except ValueError as error:
        raise InvalidSpec(field, uri, f"{ALLOWED_CONTROL} ({error})") from error
    if password is not None:
        raise InvalidSpec(field, uri.replace(password, "…"), ALLOWED_CONTROL)
    if not _FOLDER_OF_STORE.fullmatch(uri.rstrip("/")):
        raise InvalidSpec(field, uri, ALLOWED_CONTROL)
    if scheme not in ON_HADOOP:
        import fsspec  # noqa: PLC0415  only if control is in an object store

        try:
            fsspec.get_filesystem_class(scheme)
        except (ImportError, ValueError) as error:
            needed = f"pip install 'streaming-state[{object_store(uri)}]'"
            raise InvalidSpec(field, uri, f"{ALLOWED_CONTROL} ({needed})") from error


DEFAULT_STREAMS: Final = Path("dags", "streams")
"""Folder of the specs below the current folder, unless a variable or an option names another."""
HOME_VARIABLE: Final = "SESSIONIZER_HOME"
DEFAULT_HOME: Final = ".sessionizer"
STREAMS: Final = "streams"


def platform_home() -> Path:
    """Return $SESSIONIZER_HOME, else ``.sessionizer`` in the working directory. Raises InvalidSpec for a URI."""
    return home_at(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME)


def home_at(given: str, field: str = HOME_VARIABLE) -> Path:
    """Return the absolute home at a path. Raises InvalidSpec for ``field`` if it is a URI, or a pattern to Spark."""
    if is_uri(given):
        allowed = f"a path. Only {CONTROL_VARIABLE} (records) and {DATA_VARIABLE} (checkpoints, tables) may be URIs"
        raise InvalidSpec(field, given, allowed)
    home = Path(given).expanduser().absolute()
    _require_no_pattern(str(home), field)
    return home


def _require_no_pattern(place: str, field: str) -> None:
    if PATTERN.search(place):
        raise InvalidSpec(field, place, NO_PATTERN)


def streams_folder(home: Path) -> Path:
    """Return the folder with a directory for each stream of the platform at ``home``."""
    return home.absolute() / STREAMS


def resolve_place(path: str, platform_home: Path) -> str:
    """Resolve a path of a spec: unchanged if absolute or a URI, else under the platform's home."""
    return path if is_uri(path) else str(platform_home / path)


_S3A: Final = {
    # Hadoop knows S3A by s3a:// only; s3:// is what people and all other readers of the tables write
    "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
    # Spark uploads state files so. S3A's own way for it is asynchronous, and failed beside Spark's Netty
    "fs.s3a.optimized.copy.from.local.enabled": "false",
}
_S3_ADDRESS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_S3_REGION: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_AZURE_KEY: Final = "AZURE_STORAGE_ACCOUNT_KEY"
_AZURE_CLIENT: Final = ("AZURE_STORAGE_TENANT_ID", "AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET")
_AZURE_TOKENS: Final = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"


def hadoop_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings for object stores, as far as the ``environment`` says more than Hadoop's defaults."""
    return {**_s3(environment), **_gcs(environment), **_azure(environment)}


def _s3(environment: Mapping[str, str]) -> dict[str, str]:
    found = dict(_S3A)
    address, region = _first(environment, _S3_ADDRESS), _first(environment, _S3_REGION)
    if address:
        # a server that is not Amazon's seldom has a host name for each bucket
        found |= {"fs.s3a.endpoint": address, "fs.s3a.path.style.access": "true"}
    if region:
        # without it the client asks the metadata service of EC2, for half a minute where there is none
        found["fs.s3a.endpoint.region"] = region
    return found


def _gcs(environment: Mapping[str, str]) -> dict[str, str]:
    project = environment.get("GOOGLE_CLOUD_PROJECT")
    return {
        # GOOGLE_APPLICATION_CREDENTIALS, else the user's login, else those of the machine, as Python's client does it
        "fs.gs.auth.type": "APPLICATION_DEFAULT",
        **({"fs.gs.project.id": project} if project else {}),
    }


def _azure(environment: Mapping[str, str]) -> dict[str, str]:
    if environment.get(_AZURE_KEY):
        return {"fs.azure.account.key": f"${{env.{_AZURE_KEY}}}"}
    if not all(environment.get(name) for name in _AZURE_CLIENT):
        return {}
    tenant, client, secret = _AZURE_CLIENT
    return {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": _AZURE_TOKENS,
        "fs.azure.account.oauth2.client.endpoint": f"https://login.microsoftonline.com/${{env.{tenant}}}/oauth2/token",
        "fs.azure.account.oauth2.client.id": f"${{env.{client}}}",
        "fs.azure.account.oauth2.client.secret": f"${{env.{secret}}}",
    }


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)
