"""Navigation of the documentation's site (a hook of mkdocs): the groups and pages of ``docs/README.md``, in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#]+)\)")
INDEX: Final = Path("docs/README.md")


def on_config(config: dict[str, Any]) -> dict[str, Any]:
    """Give the site its navigation."""
    text = (Path(config["docs_dir"]) / INDEX).read_text()
    config["nav"] = [{"Start": "README.md"}, {"Releases": "CHANGELOG.md"}, *_groups(text)]
    return config


def _groups(text: str) -> Iterator[dict[str, list[dict[str, str]]]]:
    for group in text.split("\n## ")[1:]:
        title, *lines = group.splitlines()
        cells = [line.split("|")[1] for line in lines if line.startswith("|")]
        yield {title: [{name: _in_site(link)} for cell in cells for name, link in LINK.findall(cell)]}


def _in_site(link: str) -> str:
    return str((Path("/") / INDEX.parent / link).resolve().relative_to("/"))
