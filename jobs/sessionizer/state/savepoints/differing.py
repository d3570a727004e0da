"""Differences of two savepoints by their manifests: field by field, as a spec's changes are listed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sessionizer.stream_spec.decisions import Change, changes_between, decided_by, leaves

if TYPE_CHECKING:
    from sessionizer.state.savepoints.manifest import Manifest

_OF_EACH_ONE: Final = ("id", "files", "made_at", "live", "format", "writer", "sha256", "spec")
"""Fields that differ between any two savepoints."""


def differences(before: Manifest, now: Manifest) -> tuple[Change, ...]:
    """List the differences, without fields that always differ. The spec is compared by the fields that decide."""
    return changes_between(_told(before), _told(now))


def _told(manifest: Manifest) -> dict[str, Any]:
    content = {name: value for name, value in manifest.to_json().items() if name not in _OF_EACH_ONE}
    content["sinks"] = {sink.pop("name"): sink for sink in content["sinks"]}
    spec = {f"spec.{field}": value for field, value in decided_by(manifest.spec).items()}
    return {**dict(leaves(content)), **spec}
