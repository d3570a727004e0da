"""Metadata of the package that depend on the address of its repository: the URLs, and the README for the index.

``REPOSITORY_URL`` is the address, such as ``https://github.com/owner/name``. An index shows the README without
the files beside it. So links to files become links to the repository at the release's tag, or plain words without an
address.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE: Final = "REPOSITORY_URL"
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


class RepositoryMetadata(MetadataHookInterface):
    """Hook that hatchling calls for the fields ``readme`` and ``urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the two fields."""
        place = os.environ.get(VARIABLE, "").rstrip("/")
        tag = f"v{_version(Path(self.root))}"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme_for_index(text, place, tag)}
        if place:
            pages = {"Documentation": f"blob/{tag}/docs/README.md", "Changelog": f"blob/{tag}/CHANGELOG.md"}
            metadata["urls"] = {
                "Source": place,
                "Issues": f"{place}/issues",
                **{name: f"{place}/{page}" for name, page in pages.items()},
            }


def readme_for_index(text: str, place: str, tag: str) -> str:
    """Return the README with links to the repository at ``place``. Without one, links are words, and images go."""

    def replace(link: re.Match[str]) -> str:
        mark, words, file = link.groups()
        if not place:
            return "" if mark else words
        return f"{mark}[{words}]({place}/{'raw' if mark else 'blob'}/{tag}/{file})"

    return _LINK.sub(replace, text)


def _version(root: Path) -> str:
    package = (root / "jobs" / "sessionizer" / "__init__.py").read_text(encoding="utf-8")
    return package.partition('__version__ = "')[2].partition('"')[0]
