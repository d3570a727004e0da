"""Copy of a stream in a platform home of its own, for a command that must not touch the stream.

No supervisor knows it. A driver that a user starts there reads the same source, and writes tables of its own.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.home.clock import DAY, epoch_ms
from sessionizer.home.data_files import list_entries, remove_tree
from sessionizer.home.disk.local_files import make_private
from sessionizer.home.json_record import json_digest
from sessionizer.home.names import mint_id, mint_prefix
from sessionizer.home.platform_home import resolve_place
from sessionizer.home.roots import uri_of
from sessionizer.home.stream_home import StreamHome
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.document.stream import StreamSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sessionizer.home.roots import DataPath
    from sessionizer.stream_spec.decisions import Document

COPIES: Final = "copies"
_SPECS: Final = "specs"
_REMOVES_FILES: Final = frozenset({"cleansource", "sourcearchivedir"})
"""Options of a source of files, in lower case, by which Spark removes the files that it has read."""
_LEFT_FOR_MS: Final = DAY
"""Age (ms) at which an unfinished copy belongs to a command that was killed."""


@dataclass(frozen=True, slots=True)
class StreamCopy:
    """Copy number ``id`` of the stream of ``original``."""

    original: StreamHome
    id: str

    @property
    def platform(self) -> Path:
        """The platform's home of the copy."""
        return self.original.root / COPIES / self.id

    @property
    def data_root(self) -> DataPath | None:
        """The data root of the copy, None if it is its home."""
        return None if self.original.data_root is None else self.original.data / COPIES / self.id

    @property
    def home(self) -> StreamHome:
        """The home of the copied stream."""
        return StreamHome.scratch(self.platform, self.original.name, self.data_root)

    @property
    def specs(self) -> Path:
        """The folder with the spec of the copied stream."""
        return self.platform / _SPECS

    def spec(self, spec: StreamSpec) -> StreamSpec:
        """Return the ``spec`` for the copy: the same source, from which no file is removed, and tables of its own.

        The tables have no names in a catalog, because those of the stream keep them.
        """
        document, platform = document_of(spec), self.original.platform
        keep_source_files(document)
        for block, name in (("source", "path"), ("rules", "client_timeouts_table")):
            if document[block].get(name) is not None:
                document[block][name] = resolve_place(document[block][name], platform)
        folder = document["sink"]["path"]
        if folder is not None:
            document["sink"]["path"] = f"{uri_of(self.home.data)}/sink-{json_digest(folder)[:8]}"
        document["sink"]["table"] = None
        return StreamSpec.model_validate(document)

    def write_spec(self, spec: StreamSpec) -> None:
        """Write the spec of the copy into its own folder of specs. Raises OSError."""
        self.specs.mkdir(exist_ok=True)
        text = yaml.safe_dump(document_of(spec), sort_keys=False, allow_unicode=True)
        (self.specs / f"{self.original.name}.yaml").write_text(text, encoding="utf-8")

    def lines(self) -> Iterator[str]:
        """Say how a user looks at the copy, lets it read on, and removes it."""
        name = self.original.name
        command = "sessionizer" if self.original.control_root is None else "SESSIONIZER_CONTROL= sessionizer"
        there = f"--home {self.platform} --streams {self.specs}"
        data = "" if self.data_root is None else f" --data {uri_of(self.data_root)}"
        yield f"  to look at it: {command} status {name} {there}"
        yield f"  to let it read on: {command} run {name} --until caught-up {there}{data}"
        yield f"  to remove it: delete {' and '.join(map(uri_of, self._folders))}"

    def remove(self) -> None:
        """Remove all of it. Raises OSError."""
        for folder in self._folders:
            remove_tree(folder)

    @property
    def _folders(self) -> tuple[DataPath, ...]:
        """The folders of the copy. The platform's home goes last, because a copy is found by it."""
        return (self.platform,) if self.data_root is None else (self.data_root, self.platform)

    @property
    def is_finished(self) -> bool:
        """Whether the command that made it came to its end."""
        return any(each.outcome is Ending.DONE for each in read_operations(self.home))


@contextmanager
def new_copy(original: StreamHome) -> Iterator[StreamCopy]:
    """Make the home of a copy of the stream, and remove it if the block raises.

    Copies that killed commands left are removed as well. Raises UnwritablePath, DiskFull, DamagedFile, OSError.
    """
    _remove_left_copies(original)
    copy = StreamCopy(original, mint_id(epoch_ms()))
    make_private(copy.platform.parent)
    try:
        copy.home.prepare()
        copy.home.prepare_data()
        yield copy
    except BaseException:
        copy.remove()
        raise


def keep_source_files(document: Document) -> None:
    """Drop the options of a spec's source that remove the files of the source."""
    options = document["source"].get("options")
    if options:
        document["source"]["options"] = {
            name: value for name, value in options.items() if name.lower() not in _REMOVES_FILES
        }


def _remove_left_copies(original: StreamHome) -> None:
    oldest = mint_prefix(epoch_ms() - _LEFT_FOR_MS)
    for entry in list_entries(original.root / COPIES):
        copy = StreamCopy(original, entry.name)
        if entry.name < oldest and not copy.is_finished:
            copy.remove()
