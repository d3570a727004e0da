"""The order of test files in a run with several workers."""

from __future__ import annotations

from support.fixtures.order import sort_for_workers

FILES = [
    "unit/test_a.py",
    "airflow/told/test_b.py",
    "spark/state/test_c.py",
    "e2e/airflow/test_d.py",
    "faults/test_e.py",
]


def test_long_files_come_first_and_waiting_ones_between_working_ones() -> None:
    assert sort_for_workers(FILES) == [
        "e2e/airflow/test_d.py",
        "faults/test_e.py",
        "airflow/told/test_b.py",
        "spark/state/test_c.py",
        "unit/test_a.py",
    ]


def test_a_file_in_no_known_folder_comes_last_and_none_is_lost() -> None:
    assert sort_for_workers([*FILES, "new/test_f.py", FILES[0]])[-1] == "new/test_f.py"
    assert sorted(sort_for_workers(FILES)) == sorted(FILES)
