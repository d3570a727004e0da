"""The output of the JVM that a command starts."""

import os
import subprocess
import sys

import pytest

from sessionizer.launch.driver_environment import PLAIN_SPARK
from sessionizer.spark.internals.own_jvm import UNTOLD, pass_on
from support.places import REPOSITORY

PROGRAM = """
import sys
from sessionizer.spark.session import spark_session
spark = spark_session("quiet", "local[1]")
spark.sparkContext._jvm.java.lang.System.err.println("a warning of Spark")
print(spark.sparkContext.appName, spark.range(3).count())
spark.stop()
"""


def started(**settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "jobs")} | settings
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("plain", ["", "1"])
def test_a_command_prints_what_the_jvm_prints_without_the_lines_of_every_start(plain: str) -> None:
    found = started(**{PLAIN_SPARK: plain})
    assert (found.returncode, found.stdout) == (0, "quiet 3\n")
    assert "a warning of Spark\n" in found.stderr
    assert (UNTOLD[0].decode() in found.stderr) == bool(plain)


def test_the_last_lines_of_a_jvm_that_does_not_start_are_printed() -> None:
    found = started(JAVA_TOOL_OPTIONS="-XX:NoSuchOption")
    assert found.returncode != 0
    assert "NoSuchOption" in found.stderr
    assert "JvmNotStarted" in found.stderr


def test_an_empty_line_goes_only_with_the_line_before_it(capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"one\n\n" + UNTOLD[1] + b"\n\n\ntwo\n" + UNTOLD[0] + b"jdk.incubator.vector\nthree")
    os.close(writer)
    pass_on(reader)
    assert capfd.readouterr().err == "one\n\ntwo\nthree"
