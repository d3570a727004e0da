"""The ledger of erasures: who was erased, as digests, up to when, and whether every file is free of them.

No record is removed. Drivers, restores and seeds read all, and drop what comes again. No file has the secret of the
digests.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from sessionizer.control.records.operation_record import OperationRecord, OperationStage, read_all
from sessionizer.core.definition.erasure import ErasedOnce, digest_key
from sessionizer.errors import InvalidSpec, OperationPending
from sessionizer.home.json_record import JsonRecord, Moment
from sessionizer.home.record_file import ControlFile, have_folder
from sessionizer.home.stream_home import StreamHome

if TYPE_CHECKING:
    from sessionizer.core.wire.erased_keys import ErasedKeys

SECRET: Final = "SESSIONIZER_ERASE_SECRET"  # noqa: S105  the name of a variable
"""Variable with the secret of the digests. Drivers and commands need it as soon as a key was erased."""
_SHORTEST: Final = 16
_CHECKED: Final = ("secret", "")
"""Column and value whose digest tells one secret from another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErasureRecord(JsonRecord):
    """An erasure. ``digests``: of values of ``column``, in Base64. ``secret``: tells which secret made them.

    Events up to ``until`` (epoch ms) are dropped: up to ``approved_at``, or for good. ``swept_at``: when no file held
    the keys any more (epoch ms), None before that. ``approval``: the digest of its plan. ``redacts``: payload columns
    that events lose in place of being dropped.
    """

    operation: str
    approval: str
    column: str
    approved_at: Moment
    until: Moment
    digests: str
    secret: str
    swept_at: Moment | None = None
    redacts: tuple[str, ...] = ()

    @classmethod
    def of(cls, operation: OperationRecord, secret: bytes, erasure: ErasedOnce) -> Self:
        """Make the record of an ``erasure`` by an approved ``operation``."""
        return cls(
            operation=operation.id,
            approval=operation.digest,
            column=erasure.column,
            approved_at=operation.begun_at,
            until=erasure.until_ms,
            digests=base64.b64encode(erasure.digests).decode(),
            secret=digest_key(secret, *_CHECKED).hex(),
            redacts=erasure.redacts,
        )

    @property
    def erasure(self) -> ErasedOnce:
        """The erasure that events are tested against."""
        return ErasedOnce(self.column, self.until, base64.b64decode(self.digests), self.redacts)


ERASURE_FILE: Final = ControlFile("erasures/{}.json", ErasureRecord, key="operation")


def read_secret(environment: Mapping[str, str] = os.environ) -> bytes:
    """Return the secret. Raises InvalidSpec if there is none, or a short one."""
    secret = environment.get(SECRET, "")
    if len(secret) < _SHORTEST:
        given = f"{len(secret)} characters" if secret else None
        allowed = f"at least {_SHORTEST} characters, the same ones in all processes of the installation and for ever"
        raise InvalidSpec(SECRET, given, allowed)
    return secret.encode()


def read_erasures(home: StreamHome) -> list[ErasureRecord]:
    """Read the ledger, the oldest first. Raises DamagedFile, ControlUnreachable."""
    return sorted(read_all(home, ERASURE_FILE), key=lambda each: (each.until, each.operation))


def read_unswept(home: StreamHome) -> list[ErasureRecord]:
    """Read the erasures that files may still hold, the oldest first. Raises DamagedFile, ControlUnreachable."""
    return [each for each in read_erasures(home) if each.swept_at is None]


def require_swept(home: StreamHome) -> None:
    """Raise OperationPending if an erasure has not been swept: it removes files that a command may need."""
    if read_unswept(home):
        raise OperationPending(home.name, "erase", "", OperationStage.ACTIVATED, is_past_return=True)


def read_erased(home: StreamHome, environment: Mapping[str, str] = os.environ) -> ErasedKeys:
    """Return whose events are dropped. Raises DamagedFile, ControlUnreachable, InvalidSpec without the secret."""
    from sessionizer.core.wire.erased_keys import NOBODY_ERASED, ErasedKeys  # noqa: PLC0415  Airflow has no Arrow

    records = read_erasures(home)
    if not records:
        return NOBODY_ERASED
    secret = read_secret(environment)
    made_by = digest_key(secret, *_CHECKED).hex()
    if any(each.secret != made_by for each in records):
        allowed = f"the secret by which the keys in {ERASURE_FILE.folder(home)} were erased"
        raise InvalidSpec(SECRET, "another one", allowed)
    return ErasedKeys(secret, tuple(each.erasure for each in records))


def note_erasure(home: StreamHome, record: ErasureRecord) -> None:
    """Add the ``record``, or keep the one of an earlier try. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    have_folder(ERASURE_FILE.folder(home), "the ledger of erasures")
    ERASURE_FILE.of(home, record.operation).create(record)


def note_swept(home: StreamHome, record: ErasureRecord, at: int) -> None:
    """Note that since ``at`` (epoch ms) no file holds the keys. Raises UnwritablePath, DiskFull, ControlUnreachable."""
    ERASURE_FILE.of(home, record.operation).write(replace(record, swept_at=at))
