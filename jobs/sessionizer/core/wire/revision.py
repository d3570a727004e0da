"""The version of what the state's blobs hold; a newer one gets a migration."""

from __future__ import annotations

from typing import Final

REVISION: Final = "0001"
