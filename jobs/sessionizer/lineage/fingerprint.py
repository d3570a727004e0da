"""Programs that a lineage runs by: their fingerprint, the digest of the code that decides, and the checkpoint's record.

A module decides unless it, or a package above it, assigns its reason to ``DECIDES_NO_ROW``. The normal form has what
Python runs, without comments, docstrings, layout, imports for type checkers and the names of local variables.

``fingerprint.json`` has the release, the deciding code and the versions below it. A driver compares the versions before
it starts Spark, because another line of Spark or Delta may read a checkpoint otherwise.

``checkpoint.json`` says how a checkpoint is made and which stream it belongs to (docs/adr/0071). Spark compares next to
nothing of that: a renamed variable is an empty one.
"""

import ast
import hashlib
import importlib.metadata
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import sessionizer
from sessionizer.checkpoint.log_entries import offset_log
from sessionizer.core.wire.rows import REVISION
from sessionizer.errors import DataAway, DataElsewhere, EngineChanged, UnreadableLineage
from sessionizer.home.data_files import list_names, translate_refusal
from sessionizer.home.home_identity import owner_name
from sessionizer.home.json_record import JsonRecord
from sessionizer.home.record_file import LineageFile
from sessionizer.home.roots import DATA_VARIABLE, uri_of
from sessionizer.home.stream_home import CHECKPOINT_RECORD, StreamHome
from sessionizer.lineage.batch_log import BatchLog
from sessionizer.migrations.graph import revisions_before_head

PACKAGE: Final = "sessionizer"
_DECLARED: Final = re.compile(rb"^DECIDES_NO_ROW\b", re.MULTILINE)
_UNUSED: Final = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES: Final = (*_FUNCTIONS, *_COMPREHENSIONS)
_BINDING: Final[Mapping[type[ast.AST], str]] = {
    ast.Name: "id",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
    ast.alias: "asname",
    ast.arg: "arg",
}
"""Nodes that may bind a local variable, with the field that names it."""


@cache
def code_digest() -> str:
    """Digest the deciding code of this release, in a folder or in the archive that a cluster hands on."""
    return digest_of(files(PACKAGE))


@cache
def source_digest() -> str:
    """Digest the bytes of the same modules, 20 times as fast: if they are the same, so is the code."""
    return _digest((name, module.read_bytes()) for name, module in deciding_modules(files(PACKAGE)))


def digest_of(package: Traversable) -> str:
    """Digest the deciding modules of ``package`` as SHA-256 of their names and normal forms."""
    return _digest((name, normal_form(module.read_bytes())) for name, module in deciding_modules(package))


def deciding_modules(package: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield each deciding module with its path in ``package``, always in the same order."""
    entries = sorted(package.iterdir(), key=lambda each: each.name)
    if any(each.name == "__init__.py" and _DECLARED.search(each.read_bytes()) for each in entries):
        return
    for entry in entries:
        if entry.is_dir():
            yield from deciding_modules(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(".py") and not _DECLARED.search(entry.read_bytes()):
            yield f"{above}{entry.name}", entry


def normal_form(source: bytes) -> bytes:
    """Return what Python runs of a module's ``source``. It is the same in each supported version of Python."""
    form: list[str] = []
    _add_form(form, ast.parse(source), {}, 0)
    return "\n".join(form).encode()


def _digest(modules: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in modules:
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _add_form(form: list[str], node: ast.AST, names: Mapping[str, str], depth: int) -> None:
    """Add the form of ``node``, which lies in ``depth`` scopes. ``names``: the numbers of local variables there."""
    if isinstance(node, ast.Constant):
        form.append(f"{type(node.value).__name__} {node.value!r}")
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring, or the text below a constant
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        for each in node.orelse:
            _add_form(form, each, names, depth)
        return
    if isinstance(node, _SCOPES):
        names, depth = _scope(node, names, depth), depth + 1
    named = _BINDING.get(type(node))
    form.append(type(node).__name__)
    for name, value in ast.iter_fields(node):
        if name in _UNUSED or value is None or value == []:
            continue
        form.append(name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                _add_form(form, each, names, depth)
            else:
                form.append(names.get(each, each) if name == named else repr(each))
    form.append(".")


def _scope(node: ast.AST, outer: Mapping[str, str], depth: int) -> dict[str, str]:
    kept = set[str]()
    if isinstance(node, _COMPREHENSIONS):
        found = [name for part in node.generators for name in _bound(part.target)]
    elif isinstance(node, ast.Lambda):
        found = _parameters(node.args)
    else:
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)  # noqa: S101  for the type checker
        shared = (each.names for each in ast.walk(node) if isinstance(each, ast.Global | ast.Nonlocal))
        kept.update(_parameters(node.args), *shared)
        found = [name for each in node.body for name in _bound(each) if name not in kept]
    inherited = {name: number for name, number in outer.items() if name not in kept}
    return {**inherited, **{name: f"local {depth}.{place}" for place, name in enumerate(dict.fromkeys(found))}}


def _parameters(arguments: ast.arguments) -> list[str]:
    return [each.arg for each in ast.walk(arguments) if isinstance(each, ast.arg)]


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield the local variables that ``node`` binds, without those of functions, classes and comprehensions in it."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return
    if isinstance(node, _COMPREHENSIONS):
        yield from (each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
        return
    named = getattr(node, _BINDING.get(type(node), ""), None)
    if named is not None and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
        yield named
    for each in ast.iter_child_nodes(node):
        yield from _bound(each)


RELEASE: Final = "release"
PYTHON: Final = "python"
JAVA: Final = "java"
SPARK: Final = "spark"
DELTA: Final = "delta-spark"


@dataclass(frozen=True, slots=True)
class Program:
    """Program that a lineage runs by. ``title``: its name in sentences. ``package``: the one that has its version.

    ``is_engine``: it reads and writes a checkpoint and its tables, so a driver starts only on the line that made them.
    ``is_chosen``: an environment is chosen by its version, and a stream is stopped for another one.
    """

    title: str
    package: str = ""
    is_engine: bool = False
    is_chosen: bool = False


PROGRAMS: Final = {
    RELEASE: Program("release", "streaming-state", is_chosen=True),
    SPARK: Program("Spark", "pyspark", is_engine=True, is_chosen=True),
    DELTA: Program("Delta", "delta-spark", is_engine=True, is_chosen=True),
    PYTHON: Program("Python"),
    JAVA: Program("Java"),
    "pyarrow": Program("pyarrow", "pyarrow"),
}
ENGINE: Final = tuple(name for name, each in PROGRAMS.items() if each.is_engine)
EARLIER: Final[Mapping[str, str]] = {SPARK: "4.2.0", DELTA: "4.4.0"}
"""Versions of every lineage without this record: earlier releases ran with these only."""


@dataclass(frozen=True, slots=True)
class Fingerprint(JsonRecord):
    """Digest of our deciding ``code``, ``versions`` of our release and the programs below it, pinned settings.

    ``code``: as ``code_digest`` has it, and ``sources`` as ``source_digest``. ``""`` is unknown.
    ``configuration``: Spark's settings that the checkpoint pins, empty before the first batch. ``bundle``: DAG bundle
    (``name@version``) of the watch in which its newest driver started. None if none is known.
    """

    code: str
    versions: Mapping[str, str]
    configuration: Mapping[str, str] = field(default_factory=dict)
    bundle: str | None = None
    sources: str = ""


FINGERPRINT_FILE: Final = LineageFile("fingerprint.json", Fingerprint)


def present_fingerprint(more: Mapping[str, str] | None = None, known: Fingerprint | None = None) -> Fingerprint:
    """Return this process's fingerprint. ``known``: one perhaps of the same code, not to be parsed then."""
    is_same = known is not None and known.sources == source_digest()
    code = known.code if known is not None and is_same else code_digest()
    return Fingerprint(code, {**present_versions(), **(more or {})}, sources=source_digest())


def present_versions() -> dict[str, str]:
    """Return the versions that are installed here, without those of packages that are not."""
    return {RELEASE: sessionizer.__version__, PYTHON: platform.python_version(), **_installed_versions()}


def release_line(version: str) -> str:
    """Return the line of a version: its first two numbers, as in ``4.2``."""
    return ".".join(version.split(".")[:2])


def read_fingerprint(home: StreamHome, lineage: str) -> Fingerprint:
    """Read the record, or return the known versions of a lineage of an earlier release. Raises DamagedFile."""
    return FINGERPRINT_FILE.of(home, lineage).require() or Fingerprint("", EARLIER)


def write_fingerprint(home: StreamHome, lineage: str, fingerprint: Fingerprint) -> None:
    """Write the record unless it says the same, as maker or driver. Raises UnwritablePath, DamagedFile."""
    file = FINGERPRINT_FILE.of(home, lineage)
    if file.require() != fingerprint:
        file.write(fingerprint)


def note_programs(home: StreamHome, lineage: str) -> None:
    """Record the programs that are installed here, unless the engine is of another line.

    Raises UnwritablePath, DamagedFile.
    """
    kept = read_fingerprint(home, lineage)
    now = present_fingerprint(known=kept)
    if other_line(kept.versions, now.versions) is None:
        versions = {**kept.versions, **now.versions}
        write_fingerprint(home, lineage, replace(kept, code=now.code, sources=now.sources, versions=versions))


def require_same_engine(home: StreamHome, lineage: str) -> None:
    """Raise EngineChanged if another line of Spark or Delta made ``lineage``. Raises DamagedFile."""
    changed = other_line(read_fingerprint(home, lineage).versions, _installed_versions())
    if changed is not None:
        name, kept, now = changed
        raise EngineChanged(home.name, lineage, name, kept, now)


def other_line(kept: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return the first program of the engine that is on another line, with both versions, None if there is none."""
    for name in ENGINE:
        if name in kept and name in now and release_line(kept[name]) != release_line(now[name]):
            return name, kept[name], now[name]
    return None


@cache
def _installed_versions() -> Mapping[str, str]:
    found = dict[str, str]()
    for name, program in PROGRAMS.items():
        try:
            if program.package and name != RELEASE:
                found[name] = importlib.metadata.version(program.package)
        except importlib.metadata.PackageNotFoundError:  # such as beside Airflow, which needs no Spark
            continue
    return found


CHECKPOINT_FORMAT: Final = 1
"""A number for each way that a checkpoint was ever made: the names and Spark types of the state's variables, how its
sources are known, Spark's own formats."""


@dataclass(frozen=True, slots=True)
class CheckpointRecord(JsonRecord):
    """The format of a checkpoint, its state's ``revision``, its ``owner``, and its ``data`` root (None: the home)."""

    checkpoint_format: int
    revision: str
    owner: str
    data: str | None = None


CHECKPOINT_FILE: Final = LineageFile(CHECKPOINT_RECORD, CheckpointRecord)


def record_of(home: StreamHome) -> CheckpointRecord:
    """Build the record that this release writes for the stream of ``home``. Raises DamagedFile, UnwritablePath."""
    data = None if home.data_root is None else uri_of(home.data_root)
    return CheckpointRecord(CHECKPOINT_FORMAT, REVISION, owner_name(home.name, home.control_base), data)


def require_readable_lineage(home: StreamHome, lineage: str, *, to_upgrade: bool = False) -> None:
    """Raise UnreadableLineage, unless ``to_upgrade`` and its revision can be raised. Raises DataElsewhere."""
    kept, now = CHECKPOINT_FILE.of(home, lineage).require(), record_of(home)
    if to_upgrade and kept is not None and kept.revision in revisions_before_head():
        now = replace(now, revision=kept.revision)
    cause = difference(home.name, kept, now)
    if cause is not None:
        made = None if kept is None else read_fingerprint(home, lineage).versions.get(RELEASE)
        raise UnreadableLineage(home.name, lineage, cause if made is None else f"release {made} made it: {cause}")
    require_data_here(home, lineage)


def require_data_here(home: StreamHome, lineage: str) -> None:
    """Raise DataElsewhere if the data of ``lineage`` is not in the given data root. Raises DamagedFile."""
    kept, now = CHECKPOINT_FILE.of(home, lineage).require(), record_of(home)
    if kept is not None and kept.data != now.data:
        at_home = str(home.platform)
        raise DataElsewhere(home.name, lineage, DATA_VARIABLE, kept.data or at_home, now.data or at_home)


def difference(stream: str, kept: CheckpointRecord | None, now: CheckpointRecord) -> str | None:
    """Say why a lineage of ``stream`` that keeps ``kept`` cannot be resumed, None if it can."""
    if kept is None:
        return "it has no checkpoint.json, because an early release began it in a format that this release cannot read"
    if kept.checkpoint_format != now.checkpoint_format:
        return f"its checkpoint has format {kept.checkpoint_format}, and this release reads {now.checkpoint_format}"
    if kept.revision != now.revision:
        said = f"its state has revision {kept.revision}"
        if kept.revision in revisions_before_head():
            return f"{said}. Run `sessionizer upgrade {stream}`, which brings it to {now.revision}"
        return f"{said}, and this release reads {now.revision}"
    if kept.owner != now.owner:
        return f"its checkpoint belongs to {kept.owner}, not to {now.owner}"
    return None


def require_checkpoint(home: StreamHome, lineage: str) -> None:
    """Raise DataAway if ``lineage`` has run batches and its checkpoint is away: a driver would begin anew."""
    checkpoint = home.checkpoint(lineage)
    try:
        is_there = bool(list_names(offset_log(checkpoint)))
    except OSError as error:
        raise translate_refusal(checkpoint, "the checkpoint", error) from error
    if not is_there and BatchLog(home.lineage(lineage).batches).has_batches:
        raise DataAway(home.name, f"the checkpoint of lineage {lineage}", uri_of(checkpoint))
