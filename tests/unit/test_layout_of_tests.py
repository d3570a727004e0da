"""Files of tests: none has the name of another, and no folder is crowded."""

import multiprocessing
import os
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from support.fixtures.no_process import NotPure, no_process
from support.fixtures.order import SHARES, share_of_a_worker, sort_for_workers
from support.places import REPOSITORY

FILES = [file for file in (REPOSITORY / "tests").rglob("*.py") if "__pycache__" not in file.parts]
MOST_IN_A_FOLDER = 20


def test_each_file_of_tests_has_a_name_of_its_own() -> None:
    """Two of one name end the collection of all tests."""
    names = Counter(file.name for file in FILES if file.name.startswith("test_"))
    assert {name for name, count in names.items() if count > 1} == set()


def test_no_folder_is_crowded() -> None:
    files = Counter(file.parent.relative_to(REPOSITORY).as_posix() for file in FILES)
    assert {folder: count for folder, count in files.items() if count > MOST_IN_A_FOLDER} == {}


FILES_OF_ORDER_OF_TESTS = [
    "unit/test_a.py",
    "airflow/told/test_b.py",
    "spark/state/test_c.py",
    "e2e/airflow/test_d.py",
    "e2e/test_demo.py",
    "faults/test_e.py",
]


def test_long_files_come_first() -> None:
    assert sort_for_workers(FILES_OF_ORDER_OF_TESTS) == [
        "e2e/airflow/test_d.py",
        "airflow/told/test_b.py",
        "e2e/test_demo.py",
        "faults/test_e.py",
        "spark/state/test_c.py",
        "unit/test_a.py",
    ]


def test_a_file_in_no_known_folder_comes_last_and_none_is_lost() -> None:
    assert (
        sort_for_workers([*FILES_OF_ORDER_OF_TESTS, "new/test_f.py", FILES_OF_ORDER_OF_TESTS[0]])[-1] == "new/test_f.py"
    )
    assert sorted(sort_for_workers(FILES_OF_ORDER_OF_TESTS)) == sorted(FILES_OF_ORDER_OF_TESTS)


def test_one_worker_runs_all_files_that_wait_and_any_worker_each_other_file() -> None:
    shares = {share_of_a_worker(f"tests/{file}::test_it[tests/airflow/x]") for file in FILES_OF_ORDER_OF_TESTS}
    assert shares == {"waiting", "e2e/test_demo.py", "faults/test_e.py", "spark/state/test_c.py", "unit/test_a.py"}


def test_each_file_of_a_share_is_there() -> None:
    tests = REPOSITORY / "tests"
    files = [file.relative_to(tests).as_posix() for file in tests.rglob("test_*.py")]
    beginnings = [beginning for share in SHARES.values() for beginning in share]
    assert [each for each in beginnings if not any(file.startswith(each) for file in files)] == []


def _multiprocess(method: str) -> None:
    process = multiprocessing.get_context(method).Process(target=print)  # type: ignore[attr-defined]
    process.start()


STARTS: dict[str, Callable[[], object]] = {
    "subprocess": lambda: subprocess.Popen(["true"]),
    "a shell": lambda: os.system("true"),  # noqa: S605
    "fork": os.fork,
    "posix_spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "multiprocessing by fork": lambda: _multiprocess("fork"),
    "multiprocessing by spawn": lambda: _multiprocess("spawn"),
    "Airflow's database": lambda: sqlite3.connect("/nowhere/airflow.db"),
}


@pytest.mark.parametrize("way", STARTS)
def test_a_start_is_refused(way: str) -> None:
    with pytest.raises(NotPure), no_process():
        STARTS[way]()


def test_a_start_that_the_product_survives_still_fails_the_test() -> None:
    with pytest.raises(NotPure) as caught, no_process(), suppress(NotPure):
        subprocess.Popen(["true"])
    assert caught.value.event == "subprocess.Popen"
