"""What a driver's log says of its memory at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sessionizer.spark.driver.executors import LAST_BYTES, find_memory_message

if TYPE_CHECKING:
    from pathlib import Path

WORDS = "java.lang.OutOfMemoryError: Java heap space"


@pytest.mark.parametrize(
    "line", [f"Terminating due to {WORDS}", f'Exception in thread "Spark Context Cleaner" {WORDS}', WORDS]
)
def test_the_jvm_says_it_at_the_beginning_of_a_line(tmp_path: Path, line: str) -> None:
    log = tmp_path / "driver.log"
    log.write_text(f"batch 7\n{'.' * LAST_BYTES}\n{line}\n\tat java.base/java.nio.HeapByteBuffer.<init>\n")
    assert find_memory_message(log) == WORDS


def test_an_executors_memory_is_another_matter(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_text(f"WARN TaskSetManager: Lost task 0.0 in stage 3.0 (TID 3) (worker-3 executor 1): {WORDS}\n")
    assert find_memory_message(log) is None


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert find_memory_message(tmp_path / "driver.log") is None
