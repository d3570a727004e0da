"""All that is damaged in a checkpoint, the worst first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.inspection.damaged_descriptions import damaged_descriptions
from sessionizer.inspection.damaged_logs import LEAVE, damaged_logs, left_behind
from sessionizer.inspection.damaged_versions import damaged_versions
from sessionizer.inspection.finding import Effect

if TYPE_CHECKING:
    from sessionizer.inspection.checkpoint_read import Checkpoint
    from sessionizer.inspection.finding import Finding

_ORDER: Final = list(Effect)


def damages(checkpoint: Checkpoint) -> list[Finding]:
    """One finding for each file that is damaged, or gone."""
    found: dict[str, Finding] = {}
    for finding in (*damaged_logs(checkpoint), *damaged_descriptions(checkpoint), *damaged_versions(checkpoint)):
        known = found.get(finding.file)
        if known is None or _ORDER.index(finding.effect) < _ORDER.index(known.effect):
            found[finding.file] = finding
    for finding in left_behind(checkpoint):
        known = found.get(finding.file)
        # what is to be removed of a file that is gone is Hadoop's checksum of it
        if known is None or not (known.steps or known.remedy == LEAVE):
            found[finding.file] = finding if known is None else replace(known, steps=finding.steps)
    return sorted(found.values(), key=lambda finding: (_ORDER.index(finding.effect), finding.file))
