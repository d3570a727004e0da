"""Place of the repository, whose DAGs the demo shows. The demo runs from a clone only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).absolute().parents[2]
JARS: Final = REPOSITORY / ".jars" / "spark"
