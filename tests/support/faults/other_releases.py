"""A Spark or Delta of another release, for what starts drivers: theirs, but for a class that has moved or is newer."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from sessionizer.launch.installation import jar_folder

if TYPE_CHECKING:
    from collections.abc import Callable

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
