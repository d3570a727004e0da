"""Approval settings of an installation: users who may answer a plan, and its timeout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sessionizer.stream_spec.document.duration import duration_from

if TYPE_CHECKING:
    from collections.abc import Mapping

APPROVERS: Final = "SESSIONIZER_APPROVERS"
DEFAULTS: Final = {"SESSIONIZER_APPROVAL_PATIENCE": "4 hours"}


@dataclass(frozen=True, kw_only=True)
class ApprovalSettings:
    """Settings of the approval. A plan without an answer within ``patience_ms`` is rejected.

    ``approvers``: ids of users, as Airflow's auth manager has them. If there are none, every user who may act on the
    DAG may approve.
    """

    patience_ms: int
    approvers: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ApprovalSettings:
        """Read the settings, such as ``SESSIONIZER_APPROVERS="olga, tom"``.

        Raises InvalidSpec: the patience is no duration.
        """
        named = (each.strip() for each in environment.get(APPROVERS, "").split(","))
        return cls(
            patience_ms=duration_from({**DEFAULTS, **environment}, "approval_patience"),
            approvers=tuple(each for each in named if each),
        )
