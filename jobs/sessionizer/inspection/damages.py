"""All damage of a checkpoint, the worst first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sessionizer.inspection.damaged_descriptions import damaged_descriptions
from sessionizer.inspection.damaged_logs import damaged_logs, left_behind
from sessionizer.inspection.damaged_versions import damaged_versions
from sessionizer.inspection.finding import Effect

if TYPE_CHECKING:
    from sessionizer.inspection.checkpoint_read import Checkpoint
    from sessionizer.inspection.finding import Finding

_ORDER: Final = list(Effect)


def damages(checkpoint: Checkpoint) -> list[Finding]:
    """Return one finding for each damaged or missing file."""
    found: dict[str, Finding] = {}
    for finding in (*damaged_logs(checkpoint), *damaged_descriptions(checkpoint), *damaged_versions(checkpoint)):
        known = found.get(finding.file)
        if known is None or _ORDER.index(finding.effect) < _ORDER.index(known.effect):
            found[finding.file] = finding
    for finding in left_behind(checkpoint):
        known = found.get(finding.file)
        if known is None:
            found[finding.file] = finding
        elif finding.effect is Effect.STOPS and (known.steps or known.effect is Effect.WRONG):
            # the remedy removes Hadoop's checksum as well
            found[finding.file] = replace(known, wrong=finding.wrong, effect=finding.effect, follows=finding.follows)
    return sorted(found.values(), key=lambda finding: (_ORDER.index(finding.effect), finding.file))
