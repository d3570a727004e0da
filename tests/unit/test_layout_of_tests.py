"""Files of tests: none has the name of another, and no folder is crowded."""

from __future__ import annotations

from collections import Counter

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
