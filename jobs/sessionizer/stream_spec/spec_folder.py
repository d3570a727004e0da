"""The reading of stream specs from a folder, of one file, and of a spec that was kept as JSON."""

import errno
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from sessionizer.errors import STREAMS_FOLDER, DuplicateStream, InvalidSpec, TerminalError, UnknownStream
from sessionizer.home.local_files import file_kind, open_regular
from sessionizer.home.names import TABLES
from sessionizer.home.roots import DataPath, resolve_place
from sessionizer.stream_spec.decisions import Document
from sessionizer.stream_spec.document.names import Verbatim, catalog_names
from sessionizer.stream_spec.document.source import READ_BESIDE
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.spec_text import MOST_BYTES, YamlDocument, invalid_spec

SPEC_SUFFIXES: Final = frozenset({".yaml", ".yml"})


def load_stream(path: Path) -> StreamSpec:
    """Read the spec in the file ``path``. Raises InvalidSpec."""
    spec = read_spec(path)
    check_file_name(path, spec)
    return spec


@dataclass(frozen=True)
class StreamFolder:
    """The valid specs of a folder, by the stream's name, and the problems of its other files."""

    specs: dict[str, StreamSpec]
    problems: tuple[TerminalError, ...]


def survey_streams(folder: Path) -> StreamFolder:
    """Read all specs in ``folder``. A bad file is a problem in the result, because it must not stop all streams."""
    specs: dict[Path, StreamSpec] = {}
    problems: list[TerminalError] = []
    with _collect(problems):
        for path in spec_files(folder):
            with _collect(problems):
                specs[path] = read_spec(path)
    # before the file names: a copied file is better called a duplicate than misnamed
    files_of = defaultdict(list)
    for path, spec in specs.items():
        files_of[spec.name].append(path)
    duplicates = {name: files for name, files in files_of.items() if len(files) > 1}
    problems += [DuplicateStream(name, files) for name, files in duplicates.items()]
    for path in sorted(set(specs).difference(*duplicates.values())):
        with _collect(problems):
            check_file_name(path, specs[path])
    files_of_stem = Counter(path.stem for path in specs)
    good = [path for path, spec in specs.items() if spec.name == path.stem and files_of_stem[path.stem] == 1]
    return StreamFolder({path.stem: specs[path] for path in good}, tuple(problems))


@contextmanager
def _collect(problems: list[TerminalError]) -> Iterator[None]:
    try:
        yield
    except TerminalError as error:
        problems.append(error)


def find_stream(folder: Path, name: str) -> StreamSpec:
    """Read the spec of the stream ``name``. Other files of the folder may be broken.

    Raises UnknownStream, DuplicateStream and InvalidSpec.
    """
    files = spec_files(folder)
    named = [path for path in files if path.stem == name]
    if not named:
        raise UnknownStream(name, {path.stem for path in files})
    if len(named) > 1:
        raise DuplicateStream(name, named)
    return load_stream(named[0])


def spec_files(folder: Path) -> list[Path]:
    """Return the spec files in ``folder``, sorted by name. Hidden files, such as those of editors, do not count."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        allowed = f"a folder of stream specs ({error.strerror})"
        raise InvalidSpec(STREAMS_FOLDER, str(folder), allowed) from error
    return [path for path in entries if path.suffix in SPEC_SUFFIXES and not path.name.startswith(".")]


def read_spec(path: Path) -> StreamSpec:
    """Read the spec in ``path``, whatever the file's name. Raises InvalidSpec."""
    document = YamlDocument(read_text(path), path)
    if not isinstance(document.data, dict):
        kind = "empty" if document.data is None else type(document.data).__name__
        raise InvalidSpec("the spec", Verbatim(kind), "a block of `key: value` lines that starts with name", file=path)
    try:
        return StreamSpec.model_validate(document.data, context={READ_BESIDE: partial(_read_beside, path)})
    except ValidationError as error:
        # not chained: pydantic's own message would repeat all of it in another language
        raise invalid_spec(error, document, path) from None


def read_text(path: Path) -> str:
    """Read the file ``path``.

    Raises InvalidSpec if it is absent, no regular file, too large, not UTF-8, or a link out of its folder, because a
    message about a broken file shows a line of it. The links of a mounted ConfigMap stay in their folder.
    """
    if path.is_symlink() and not _is_within(path, path.parent):
        raise InvalidSpec("the file", Verbatim("a link"), "a file, or a link to one in its folder", file=path)
    try:
        if (kind := file_kind(path.stat().st_mode)) is not None:
            raise InvalidSpec("the file", Verbatim(kind), "a regular file", file=path)
        if (written := _read_bounded(path)) is None:
            raise InvalidSpec("the file", Verbatim("too large"), f"at most {MOST_BYTES:,} bytes", file=path)
        return written.decode("utf-8")
    except OSError as error:
        allowed = f"a readable file ({error.strerror})"
        raise InvalidSpec("the file", Verbatim("unreadable"), allowed, file=path) from error
    except UnicodeDecodeError as error:
        raise InvalidSpec("the file", Verbatim(f"broken at byte {error.start}"), "UTF-8", file=path) from error


def _is_within(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except RuntimeError:  # a link to itself
        return False


def _read_beside(spec: Path, name: str) -> bytes:
    path = spec.parent / name
    if not _is_within(path, spec.parent):
        raise OSError(errno.EXDEV, "a link out of the folder of the spec")
    if (written := _read_bounded(path)) is None:
        raise OSError(errno.EFBIG, f"more than {MOST_BYTES:,} bytes")
    return written


def _read_bounded(path: Path) -> bytes | None:
    """Return the content of a regular file, None if it is too large to be a spec. Raises OSError."""
    with open_regular(path) as file:
        written = file.read(MOST_BYTES + 1)
    return written if len(written) <= MOST_BYTES else None


def check_file_name(path: Path, spec: StreamSpec) -> None:
    """Refuse a stream whose name differs from its file's, because a lookup by name would not find it."""
    if spec.name != path.stem:
        raise InvalidSpec("name", spec.name, f"the name of the file, '{path.stem}'", file=path)


def require_own_tables(spec: StreamSpec, others: Iterable[StreamSpec], platform_home: Path) -> None:
    """Raise InvalidSpec if another stream has the same tables. The driver that comes second would be refused.

    A folder within a table is refused, too, because a compaction of that table would delete its files. It is no problem
    of the folder of specs: Airflow would have no DAGs of the stream that runs, either.
    """
    folder, names = _folder_of_tables(spec, platform_home), _names_of_tables(spec)
    for other in others:
        place = _folder_of_tables(other, platform_home)
        if other.name == spec.name:
            continue
        if folder and place and (folder == place or _is_in_table(folder, place) or _is_in_table(place, folder)):
            allowed = f"a folder of its own, because stream {other.name!r} writes there"
            raise InvalidSpec("sink.path", spec.sink.path, allowed)
        if names & _names_of_tables(other):
            raise InvalidSpec("sink.table", spec.sink.table, f"a name of its own, because stream {other.name!r} has it")


def _is_in_table(folder: str, other: str) -> bool:
    """Return whether ``folder`` is a table of the tables in ``other``, or lies within one."""
    return any(f"{folder}/".startswith(f"{other}/{table}/") for table in TABLES)


def _names_of_tables(spec: StreamSpec) -> set[str]:
    return set() if spec.sink.table is None else set(catalog_names(spec.sink.table).values())


def _folder_of_tables(spec: StreamSpec, platform_home: Path) -> str | None:
    return None if spec.sink.path is None else resolve_place(spec.sink.path, platform_home).rstrip("/")


def add_place(error: InvalidSpec, file: Path) -> InvalidSpec:
    """Add the place in ``file`` to a problem that was found after reading.

    Raises InvalidSpec if ``file`` cannot be read now.
    """
    if error.file is not None:
        return error
    document = YamlDocument(read_text(file), file)
    line = document.line_of(error.field.split("."))
    others = [add_place(other, file) for other in error.others]
    return InvalidSpec(error.field, error.value, error.allowed, file=file, line=line, others=others)


@dataclass(frozen=True, slots=True)
class SpecFile:
    """The result of reading a spec file. Exactly one of ``spec`` and ``problem`` is set."""

    name: str
    spec: StreamSpec | None = None
    problem: InvalidSpec | DuplicateStream | None = None

    def required(self) -> StreamSpec:
        """Return the spec, or raise the problem: InvalidSpec or DuplicateStream."""
        if self.problem is not None:
            raise self.problem
        assert self.spec is not None  # noqa: S101  one of them is there
        return self.spec


def read_spec_file(folder: Path, name: str) -> SpecFile:
    """Read the file of stream ``name``. Raises UnknownStream."""
    try:
        return SpecFile(name, spec=find_stream(folder, name))
    except (InvalidSpec, DuplicateStream) as error:
        return SpecFile(name, problem=error)


def parse_recorded_spec(document: Document, file: DataPath) -> StreamSpec:
    """Parse a ``document_of`` result that was kept in ``file``. Raises InvalidSpec if this release would refuse it."""
    try:
        return StreamSpec.model_validate(document)
    except ValidationError as error:
        shown = file if isinstance(file, Path) else Path(file.name)
        found = invalid_spec(error, YamlDocument(json.dumps(document, ensure_ascii=False), shown), shown)
        raise InvalidSpec(found.field, found.value, found.allowed, file=shown) from None
