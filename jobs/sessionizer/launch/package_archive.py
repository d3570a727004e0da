"""This package as an archive, which a cluster gives to the driver and the executors of a job (docs/adr/0078)."""

from __future__ import annotations

import hashlib
import os
import secrets
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sessionizer.home.local_files import TEMPORARY_SUFFIX, unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_SOURCE: Final = "__pycache__"
DIGEST_DIGITS: Final = 12
A_DAY: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the archive: the same files give the same bytes."""


@dataclass(frozen=True, slots=True)
class PackageArchive:
    """The archive of the folder ``package`` in another ``folder``. Reading its content takes some milliseconds."""

    package: Path
    folder: Path

    @property
    def place(self) -> Path:
        """The place of the archive once it is made. Its name contains a digest of the package."""
        digest = hashlib.sha256()
        for name, file in _files(self.package):
            content = file.read_bytes()
            digest.update(f"{name} {len(content)}\n".encode() + content)
        return self.folder / f"{self.package.name}-{digest.hexdigest()[:DIGEST_DIGITS]}.zip"

    def make(self) -> None:
        """Write the archive, unless it exists. Raises UnwritablePath, DiskFull, ControlUnreachable."""
        place = self.place
        if place.exists():
            return
        half = place.with_name(f".{place.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(half, "x") as archive:
                for name, file in _files(self.package):
                    archive.writestr(zipfile.ZipInfo(name, A_DAY), file.read_bytes(), zipfile.ZIP_DEFLATED)
            half.replace(place)
        except OSError as error:
            raise unwritable(place, "the archive of the package", error) from error
        finally:
            with suppress(OSError):
                half.unlink(missing_ok=True)


def _files(package: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name in the archive and the place of each file, always in the same order."""
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name != NOT_SOURCE)
        for name in sorted(names):
            file = Path(folder) / name
            yield str(file.relative_to(package.parent)), file
