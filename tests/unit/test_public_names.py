"""Public classes and functions have names of their own: one name, one idea."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("jobs/sessionizer", "plugins/sessionizer_airflow")
NAMED_BY_OTHERS = (
    "jobs/sessionizer/cli/",  # a function of a command has the command's name
    "jobs/sessionizer/migrations/versions/",  # functions of a revision
    "jobs/sessionizer/page/app.py",  # routes
    "plugins/sessionizer_airflow/pages/app.py",  # routes
    "plugins/sessionizer_airflow/listener/",  # Airflow's hooks
)


def test_no_two_modules_define_one_public_name() -> None:
    places = defaultdict(set)
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        for each in ast.parse(path.read_text()).body:
            is_ours = isinstance(each, ast.ClassDef) or not module.startswith(NAMED_BY_OTHERS)
            if isinstance(each, ast.ClassDef | ast.FunctionDef) and is_ours and not each.name.startswith("_"):
                places[each.name].add(module)
    assert len(places) > 1_000
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
