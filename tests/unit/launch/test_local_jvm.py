"""What a driver's JVM is started with on this machine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sessionizer.launch.local_jvm import END_WITHOUT_MEMORY, LOGGING, class_archive, jvm_options

if TYPE_CHECKING:
    from pathlib import Path


def test_logging_is_configured_by_a_file_that_is_there(tmp_path: Path) -> None:
    assert LOGGING.is_file()
    assert f"-Dlog4j2.configurationFile={LOGGING.as_uri()}" in shlex.split(jvm_options(tmp_path / "spark"))


def test_the_locale_is_not_that_of_the_machine(tmp_path: Path) -> None:
    assert {"-Duser.language=en", "-Duser.country=US"} <= set(shlex.split(jvm_options(tmp_path / "spark")))


def test_a_jvm_without_memory_does_not_live_on(tmp_path: Path) -> None:
    assert END_WITHOUT_MEMORY in shlex.split(jvm_options(tmp_path / "spark"))


def test_an_archive_of_classes_is_named_only_where_there_is_one(tmp_path: Path) -> None:
    jars = tmp_path / "with a space" / "spark"
    jars.mkdir(parents=True)
    assert "SharedArchiveFile" not in jvm_options(jars)
    class_archive(jars).touch()
    assert f"-XX:SharedArchiveFile={jars}.jsa" in shlex.split(jvm_options(jars))
