"""Plain words: no file may break more rules than it did, and a new file may break none."""

import json
from pathlib import Path

import pytest

from support.plain_words import findings_in

ROOT = Path(__file__).parents[2]
KNOWN = ROOT / "tests" / "golden" / "plain_words.json"
FOLDERS = ("jobs", "plugins", "dags", "demo", "benchmarks")


def test_no_file_breaks_more_rules_than_it_did(pytestconfig: pytest.Config) -> None:
    found = {str(file.relative_to(ROOT)): list(findings_in(file.read_text(encoding="utf-8"))) for file in _files()}
    counts = {name: len(findings) for name, findings in sorted(found.items()) if findings}
    if pytestconfig.getoption("--rewrite-golden"):
        KNOWN.write_text(json.dumps(counts, indent=1) + "\n")
    known = json.loads(KNOWN.read_text())
    worse = [
        f"{name}:{line}: {rule}"
        for name, findings in found.items()
        if len(findings) > known.get(name, 0)
        for line, rule in findings
    ]
    assert not worse, "rewrite these, see docs/words.md:\n" + "\n".join(worse)


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ('"""What it does."""', 1),
        ('def f() -> int:\n    """Whether it is."""', 1),
        ('def f() -> bool:\n    """Whether it is."""', 0),
        ('"""Two facts; one sentence."""', 1),
        ('"""The end of whoever was late."""', 1),
        ('"""' + "word " * 26 + '."""', 1),
        ("def of_errors() -> None: ...", 1),
        ("def to_json() -> None: ...", 0),
        ('raise ValueError("allowed: nothing, as ever")', 1),
        ('def read() -> int:\n    """Return the number of rows."""', 0),
    ],
)
def test_each_rule_is_held(source: str, rules: int) -> None:
    assert len(list(findings_in(source))) == rules


def _files() -> list[Path]:
    return sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
