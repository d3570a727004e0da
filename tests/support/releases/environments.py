"""Python environments of other releases and engines: each has what this one has, but for what it is made for."""

import json
import os
import shutil
import site
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, Final

import pyspark

import sessionizer
from sessionizer.control.records.erasure_record import SECRET
from sessionizer.launch.installation import PACKAGE, jar_folder
from support.places import REPOSITORY
from support.processes.driver_process import environment
from support.streams.stage import Stage

UV: Final = REPOSITORY / ".tools" / "bin" / "uv"
PROGRAM_WITHIN_S: Final = 300


def environment_like_this(folder: Path, release: str = sessionizer.__version__) -> Path:
    """Make an environment in ``folder`` that finds every package of this one, and return its Python.

    Its metadata say ``release``, because those of a checkout may be older than its code.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    lines = [f"import site; site.addsitedir({place!r})" for place in site.getsitepackages()]
    (packages_of(folder) / "like_this.pth").write_text("\n".join(lines) + "\n")
    metadata = packages_of(folder) / f"streaming_state-{release}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: streaming-state\nVersion: {release}\n")
    return folder / "bin" / "python"


def environment_with_spark(folder: Path, version: str) -> Path:
    """Make one with another PySpark. Its metadata conflict with those of Delta, so nothing else is resolved."""
    python = environment_like_this(folder)
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--no-deps", "--python", python, f"pyspark=={version}"], check=True
    )
    return python


def environment_with_release(folder: Path, version: str) -> Path:
    """Make an environment with a copy of our package that calls itself ``version``."""
    python, packages = environment_like_this(folder, version), packages_of(folder)
    shutil.copytree(PACKAGE, packages / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    (packages / PACKAGE.name / "__init__.py").write_text(f'"""A later release."""\n\n__version__ = "{version}"\n')
    return python


def break_release(python: Path) -> None:
    """Let the code of the release fail when it is loaded."""
    command_line = packages_of(python.parent.parent) / PACKAGE.name / "cli" / "app.py"
    command_line.write_text("import no_such_package\n")


def packages_of(folder: Path) -> Path:
    (found,) = folder.glob("lib/python3*/site-packages")
    return found


def run_by(python: Path, *arguments: str, **variables: str) -> str:
    """Run ``sessionizer`` with these arguments in that environment, and return what it prints."""
    spark = packages_of(python.parent.parent) / "pyspark"
    home = {"SPARK_HOME": str(spark)} if spark.is_dir() else {}
    application = PACKAGE / "application" / "main.py"
    given = {**environment(), **home, "PYSPARK_PYTHON": str(python), **variables}
    given.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(python), str(application), *arguments],
        env=given,
        capture_output=True,
        text=True,
        timeout=PROGRAM_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@dataclass(frozen=True, slots=True)
class Patch:
    """A line of a file below ``jobs/sessionizer``, and what stands in its place."""

    file: str
    line: str
    instead: str

    def apply(self, jobs: Path) -> None:
        path = jobs / "sessionizer" / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.line) == 1, f"{self.file} has changed"
        path.write_text(text.replace(self.line, self.instead), encoding="utf-8")


_CUTTING: Final = "core/key_group/cutting.py"
_GAP: Final = "    beyond_gap = events.clock[1:] > events.clock[:-1] + events.timeout[:-1]\n"
CUTS_ELSEWHERE: Final = Patch(_CUTTING, _GAP, _GAP.replace("timeout[:-1]", "timeout[:-1] // 2"))
REFACTORING: Final = Patch(
    _CUTTING, _GAP, "    quiet = np.diff(events.clock)\n    beyond_gap = np.greater(quiet, events.timeout[:-1])\n"
)


def release_with(patch: Patch, folder: Path) -> Path:
    """Copy the code into ``folder``, and apply the patch there."""
    copytree(REPOSITORY / "jobs", folder / "jobs", ignore=ignore_patterns("__pycache__"))
    patch.apply(folder / "jobs")
    return folder


def type_with(
    release: Path, verb: str, stage: Stage, *flags: str, within_s: float = 900, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Type a command with the stage's folders. ``text``: its standard input."""
    places = ["--home", str(stage.home), "--master", "local[2]", *(["--data", stage.data] if stage.data else [])]
    command = [sys.executable, str(release / "jobs" / "main.py"), *verb.split(), stage.name, *places, *flags]
    ours = {"SESSIONIZER_JARS": str(REPOSITORY / ".jars" / "spark"), "SESSIONIZER_STREAMS": str(stage.streams)}
    ours |= {name: os.environ[name] for name in [SECRET] if name in os.environ}
    return subprocess.run(
        command,
        capture_output=True, text=True, check=False, input=text, env=environment() | ours, timeout=within_s,
    )  # fmt: skip


def prove_with(release: Path, stage: Stage, *flags: str, within_s: float = 900) -> tuple[int, dict[str, Any]]:
    """Run ``sessionizer prove`` of another release: its exit code, and the JSON that it printed."""
    ended = type_with(release, "prove", stage, "--json", *flags, within_s=within_s)
    assert ended.stdout, ended.stderr[-4_000:]
    told: dict[str, Any] = json.loads(ended.stdout)
    return ended.returncode, told


SPARK: Final = Path(pyspark.__file__).parent
VERSION: Final = slice(6, 8)
"""Where a class file says which Java it needs."""
OF_NO_JAVA_YET: Final = (199).to_bytes(2)


def delta_without(folder: Path, entry: str) -> dict[str, str]:
    """The variables by which drivers get Delta without the class of `entry`."""
    _jars(jar_folder(), folder / "jars", "delta-spark", lambda name, content: None if name == entry else content)
    return {"SESSIONIZER_JARS": str(folder / "jars")}


def spark_with_less_public(folder: Path, jar: str, entry: str) -> dict[str, str]:
    """The variables by which drivers get a Spark whose class of `entry` has no public constructor."""
    return _spark(folder, jar, lambda name, content: _without_public(content) if name == entry else content)


def spark_of_a_later_java(folder: Path) -> dict[str, str]:
    """A Spark for which the Java that is here is too old: its first class says so."""

    def newer(name: str, content: bytes) -> bytes:
        main = name == "org/apache/spark/launcher/Main.class"
        return content[: VERSION.start] + OF_NO_JAVA_YET + content[VERSION.stop :] if main else content

    return _spark(folder, "spark-launcher", newer)


def _spark(folder: Path, jar: str, change: Callable[[str, bytes], bytes | None]) -> dict[str, str]:
    home = folder / "spark"
    home.mkdir()
    for part in SPARK.iterdir():
        if part.name != "jars":
            (home / part.name).symlink_to(part)
    _jars(SPARK / "jars", home / "jars", jar, change)
    return {"SPARK_HOME": str(home)}


def _jars(jars: Path, folder: Path, changed: str, change: Callable[[str, bytes], bytes | None]) -> None:
    """The same jars in `folder`, but for the one whose name begins with `changed`."""
    folder.mkdir()
    for jar in jars.glob("*.jar"):
        if jar.name.startswith(changed):
            _copy(jar, folder / jar.name, change)
        else:
            (folder / jar.name).symlink_to(jar)


def _copy(jar: Path, to: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    different = False
    with zipfile.ZipFile(jar) as whole, zipfile.ZipFile(to, "w") as copy:
        for name in whole.namelist():
            before = whole.read(name)
            after = change(name, before)
            different = different or after != before
            if after is not None:
                copy.writestr(name, after)
    assert different


PUBLIC: Final = 0x0001
LONG_ENTRIES: Final = (5, 6)
"""Kinds of constants that count as two."""
SIZES: Final = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of a constant by its kind; text (kind 1) says how many it has."""


def _without_public(content: bytes) -> bytes:
    """A class file with the constructors for its own package only."""
    texts, at = _constants(content)
    at += 6
    at += 2 + 2 * _number(content, at)
    at = _members(content, at)[1]
    changed = bytearray(content)
    for member in _members(content, at)[0]:
        if texts.get(_number(content, member + 2)) == b"<init>":
            changed[member : member + 2] = (_number(content, member) & ~PUBLIC).to_bytes(2)
    return bytes(changed)


def _constants(content: bytes) -> tuple[dict[int, bytes], int]:
    """The texts among the constants by number, and where the constants end."""
    texts, number, at = {}, 1, 10
    while number < _number(content, 8):
        kind, at = content[at], at + 1
        if kind == 1:
            length = _number(content, at)
            texts[number] = content[at + 2 : at + 2 + length]
            at += 2 + length
        else:
            at += SIZES[kind]
        number += 2 if kind in LONG_ENTRIES else 1
    return texts, at


def _members(content: bytes, at: int) -> tuple[list[int], int]:
    """Where each of the fields (or methods) begins that are counted at `at`, and where they end."""
    found, count, at = [], _number(content, at), at + 2
    for _ in range(count):
        found.append(at)
        attributes, at = _number(content, at + 6), at + 8
        for _ in range(attributes):
            at += 6 + int.from_bytes(content[at + 2 : at + 6])
    return found, at


def _number(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 2])
