"""The order and the division of test files in a run with several workers."""

from __future__ import annotations

from support.fixtures.order import SHARES, share_of_a_worker, sort_for_workers
from support.places import REPOSITORY

FILES = [
    "unit/test_a.py",
    "airflow/told/test_b.py",
    "spark/state/test_c.py",
    "e2e/airflow/test_d.py",
    "e2e/test_demo.py",
    "faults/test_e.py",
]


def test_long_files_come_first() -> None:
    assert sort_for_workers(FILES) == [
        "e2e/airflow/test_d.py",
        "airflow/told/test_b.py",
        "e2e/test_demo.py",
        "faults/test_e.py",
        "spark/state/test_c.py",
        "unit/test_a.py",
    ]


def test_a_file_in_no_known_folder_comes_last_and_none_is_lost() -> None:
    assert sort_for_workers([*FILES, "new/test_f.py", FILES[0]])[-1] == "new/test_f.py"
    assert sorted(sort_for_workers(FILES)) == sorted(FILES)


def test_one_worker_runs_all_files_that_wait_and_any_worker_each_other_file() -> None:
    shares = {share_of_a_worker(f"tests/{file}::test_it[tests/airflow/x]") for file in FILES}
    assert shares == {"waiting", "e2e/test_demo.py", "faults/test_e.py", "spark/state/test_c.py", "unit/test_a.py"}


def test_each_file_of_a_share_is_there() -> None:
    tests = REPOSITORY / "tests"
    files = [file.relative_to(tests).as_posix() for file in tests.rglob("test_*.py")]
    beginnings = [beginning for share in SHARES.values() for beginning in share]
    assert [each for each in beginnings if not any(file.startswith(each) for file in files)] == []
