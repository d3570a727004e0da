"""Notes of a release, out of the changelog: ``notes.py CHANGELOG.md VERSION`` prints the section of the version.

Links to files lead to the repository at ``REPOSITORY_URL``, because notes are read without the files beside them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def notes_of(changelog: str, version: str) -> str:
    """Return the text below the heading of ``version``. Raises SystemExit if there is none."""
    for section in changelog.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        if heading.split(" ")[0] == version and text.strip():
            return f"{text.strip()}\n"
    raise SystemExit(f"CHANGELOG.md has no section {version}. Make one of Unreleased")


if __name__ == "__main__":
    from metadata import VARIABLE, readme_for_index  # type: ignore[import-not-found]  # beside this file

    notes = notes_of(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2])
    sys.stdout.write(readme_for_index(notes, os.environ.get(VARIABLE, "").rstrip("/"), f"v{sys.argv[2]}"))
