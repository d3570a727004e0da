"""Side of a difference that is read from a checkout: specs, code, layout of the state, locked versions.

Nothing of it is imported or run. What a checkout does not tell is left out, and named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.core.wire.schema import REVISION
from sessionizer.deployment.verdicts.verdict import Side
from sessionizer.lineage.checkpoint_record import CHECKPOINT_FORMAT
from sessionizer.lineage.code_digest import digest_of
from sessionizer.lineage.fingerprint import DELTA, RELEASE, SPARK, Fingerprint
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.loading.folder import find_stream

if TYPE_CHECKING:
    from pathlib import Path

SPECS: Final = "dags/streams"
PACKAGE: Final = "jobs/sessionizer"
LOCK: Final = "requirements.lock"
_LOCKED: Final = {SPARK: "pyspark", DELTA: "delta-spark", "pyarrow": "pyarrow"}
_VERSION: Final = re.compile(r"^(?:__version__|version) = \"([^\"]+)\"", re.MULTILINE)
_FORMAT: Final = re.compile(r"^CHECKPOINT_FORMAT: Final = (\d+)", re.MULTILINE)
_REVISION: Final = re.compile(r"^REVISION: Final = \"([^\"]+)\"", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with the product's code, or with specs alone."""

    root: Path

    @property
    def specs(self) -> Path:
        """The folder of specs: the usual one, else the root itself."""
        usual = self.root / SPECS
        return usual if usual.is_dir() else self.root

    @property
    def has_code(self) -> bool:
        """Whether the product's code is in it."""
        return (self.root / PACKAGE).is_dir()

    def side(self, stream: str) -> Side:
        """Read the side of ``stream``. Raises UnknownStream, InvalidSpec, DuplicateStream."""
        spec = document_of(find_stream(self.specs, stream))
        if not self.has_code:
            return Side(spec, Fingerprint("", {}), CHECKPOINT_FORMAT, REVISION)
        package = self.root / PACKAGE
        checkpoint_format = _find_in_file(_FORMAT, package / "lineage" / "checkpoint_record.py")
        revision = _find_in_file(_REVISION, package / "core" / "wire" / "rows.py")
        return Side(
            spec,
            Fingerprint(digest_of(package), self._versions()),
            int(checkpoint_format or CHECKPOINT_FORMAT),
            revision or REVISION,
        )

    def _versions(self) -> dict[str, str]:
        release = _find_in_file(_VERSION, self.root / PACKAGE / "__init__.py") or _find_in_file(
            _VERSION, self.root / "pyproject.toml"
        )
        locked = {
            name: _find_in_file(re.compile(rf"^{re.escape(package)}==([\w.]+)", re.MULTILINE), self.root / LOCK)
            for name, package in _LOCKED.items()
        }
        return {name: version for name, version in {RELEASE: release, **locked}.items() if version is not None}


def _find_in_file(pattern: re.Pattern[str], file: Path) -> str | None:
    """Return the first match in ``file``, None if there is none or no such file."""
    match = pattern.search(file.read_text(encoding="utf-8")) if file.is_file() else None
    return None if match is None else match[1]
