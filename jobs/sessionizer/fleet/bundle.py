"""A support bundle: records, history, logs and what the checkpoint looks like, without credentials, in one file."""

import importlib.metadata
import io
import json
import os
import platform
import sys
import tarfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from sessionizer.counts import count_text
from sessionizer.fleet.stream_view import StreamView
from sessionizer.home.clock import epoch_ms, moment_text
from sessionizer.home.control_store import Store, record_names
from sessionizer.home.local_files import KEPT, open_regular
from sessionizer.home.roots import ControlPath
from sessionizer.home.stream_home import LOG_NAME, StreamHome
from sessionizer.launch.driver_environment import is_airflows
from sessionizer.lineage.active import locate_data, read_lineage
from sessionizer.redaction import HIDDEN, redact
from sessionizer.stream_spec.spec_folder import spec_files
from sessionizer.stream_spec.spec_text import MOST_BYTES

LOG_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the end of each log that are taken."""
LOGS_TAKEN: Final = 5
RECORD_BYTES: Final = 4 * 1024 * 1024
_FOLDERS: Final = ("", "operations", "plans", "leases", "history", "excluded_ranges")
_PACKAGES: Final = ("apache-airflow", "pyspark", "delta-spark", "pyarrow", "pandas", "streaming-state")
_NAMED: Final = ("SESSIONIZER_", "SPARK_", "JAVA_HOME", "HADOOP_CONF_DIR")
_SHOWN: Final = (
    "SESSIONIZER_", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_DRIVER_MEMORY", "SPARK_EXECUTOR_MEMORY",
    "JAVA_HOME", "HADOOP_CONF_DIR",
)  # fmt: skip
"""Beginnings of the variables whose values are in a bundle. Of the others that are named, the bundle has the name."""


@dataclass
class Bundle:
    """The files of a bundle by name, as text without credentials. ``missing`` are those that could not be read."""

    files: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Add a file. Credentials are removed, from a document of JSON value by value, so that it stays one."""
        try:
            self.files[name] = json.dumps(_hidden(json.loads(text)), indent=1)
        except ValueError:
            self.files[name] = redact(text)

    def write(self, to: BinaryIO, stream: str) -> None:
        """Write the bundle as a tar archive, compressed. It begins with a list of its files."""
        listing = {"stream": stream, "made_at": moment_text(epoch_ms()), "files": sorted(self.files)}
        told = {"contents.json": json.dumps({**listing, "missing": self.missing}, indent=1), **self.files}
        with tarfile.open(fileobj=to, mode="w:gz") as archive:
            for name, text in told.items():
                content = text.encode(errors="replace")
                entry = tarfile.TarInfo(f"{stream}-bundle/{name}")
                entry.size, entry.mtime, entry.mode = len(content), epoch_ms() // 1000, 0o600
                archive.addfile(entry, io.BytesIO(content))


def _hidden(value: Any, name: str = "") -> Any:  # noqa: ANN401  any JSON
    if isinstance(value, dict):
        return {key: _hidden(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_hidden(each, name) for each in value]
    if not isinstance(value, str):
        return value
    is_secret = redact(f"{name}={value}") != f"{name}={redact(value)}"
    return HIDDEN if is_secret else redact(value)


def collect_bundle(view: StreamView, specs: Path) -> Bundle:
    """Collect what helps to understand the stream, without its tables. Unreadable parts are named. Raises nothing."""
    bundle = Bundle()
    bundle.add("status.json", json.dumps(view.to_json(), indent=1))
    bundle.add("machine.json", json.dumps(_machine(), indent=1))
    _take(bundle, "spec", lambda: _add_spec(bundle, specs, view.name))
    if view.home is not None:
        home = view.home
        _take(bundle, "control", lambda: _add_records(bundle, home))
        _take(bundle, "logs", lambda: _add_logs(bundle, home))
        _take(bundle, "checkpoint.json", lambda: _add_checkpoint(bundle, home))
    return bundle


def _take(bundle: Bundle, what: str, add: Callable[[], None]) -> None:
    try:
        add()
    except Exception as error:  # noqa: BLE001  a bundle of a broken stream must not fail of what is broken
        bundle.missing[what] = redact(f"{type(error).__name__}: {error}")


def _add_spec(bundle: Bundle, specs: Path, name: str) -> None:
    for file in spec_files(specs):
        if file.stem == name:
            with open_regular(file) as opened:
                bundle.add(f"spec/{file.name}", opened.read(MOST_BYTES).decode(errors="replace"))


def _add_records(bundle: Bundle, home: StreamHome) -> None:
    folders = [home.control / folder if folder else home.control for folder in _FOLDERS]
    folders += [home.lineage_records / name for name in record_names(home.lineage_records)]
    for folder in folders:
        for path in (folder / name for name in record_names(folder, "*.json")):
            name = str(path).removeprefix(str(home.control)).lstrip("/")
            _take(bundle, f"control/{name}", partial(_add_record, bundle, path, name))


def _add_record(bundle: Bundle, path: ControlPath, name: str) -> None:
    content = Store(path).read()
    if len(content) > RECORD_BYTES:
        bundle.missing[f"control/{name}"] = count_text(len(content), "byte")
        return
    bundle.add(f"control/{name}", content.decode(errors="replace"))


def _add_logs(bundle: Bundle, home: StreamHome) -> None:
    """Add the ends of the newest logs. A link is passed over: it may lead to any file of the machine."""
    logs = [path for path in home.logs.iterdir() if LOG_NAME.fullmatch(path.name) and not path.is_symlink()]
    newest = sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True)[: LOGS_TAKEN * (KEPT + 1)]
    for path in newest:
        with suppress(OSError):
            bundle.add(f"logs/{path.name}", _end_of(path))


def _end_of(path: Path) -> str:
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_BYTES))
        text = file.read().decode(errors="replace")
    # the unread begin of the first line may name the credential that follows
    return text.partition("\n")[2] if size > LOG_BYTES else text


def _add_checkpoint(bundle: Bundle, home: StreamHome) -> None:
    from sessionizer.inspection.inspect import inspect  # noqa: PLC0415  fast --help

    where = locate_data(home)
    lineage = read_lineage(where)
    found = inspect(where.checkpoint(lineage.lineage)) if lineage else None
    if found is not None:
        bundle.add("checkpoint.json", json.dumps(found.to_json(), indent=1, default=str))


def _machine() -> dict[str, object]:
    versions = {}
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    settings = {
        name: value if name.startswith(_SHOWN) and not is_airflows(name) else HIDDEN
        for name, value in sorted(os.environ.items())
        if name.startswith(_NAMED)
    }
    return {"python": sys.version, "platform": platform.platform(), "packages": versions, "settings": settings}


def write_bundle(bundle: Bundle, stream: str, to: Path) -> None:
    """Write the bundle into the new file ``to``, readable by its owner only. Raises FileExistsError, OSError."""
    with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        bundle.write(file, stream)
