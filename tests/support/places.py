"""Where things are that tests look at."""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[2]
SUPPORT: Final = REPOSITORY / "tests" / "support"
