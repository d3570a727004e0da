"""Manifests of older releases: a field that is added later has a default, or each older savepoint would be damaged.

``first_form.json`` is what the first release with savepoints wrote. It is never written anew.
"""

import json
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

from sessionizer.home.stream_home import SavepointHome
from sessionizer.lineage.fingerprint import Fingerprint
from sessionizer.state.lineages.committed_batch import Position
from sessionizer.state.savepoints.manifest import (
    CHECKSUM,
    Counts,
    Manifest,
    SavepointFile,
    SinkTable,
    checksum,
    read_manifest,
)
from support.places import REPOSITORY, opened

FIRST_FORM = REPOSITORY / "tests" / "golden" / "manifests" / "first_form.json"
CONTENT: dict[str, Any] = json.loads(FIRST_FORM.read_text())
PARTS: dict[type[Any], dict[str, Any]] = {
    Manifest: CONTENT,
    Position: CONTENT["position"],
    SinkTable: CONTENT["sinks"][0],
    Counts: CONTENT["counts"],
    Fingerprint: CONTENT["fingerprint"],
    SavepointFile: CONTENT["files"][0],
}
DEFAULTS_OF_COUNTS = {"timeouts", "seen_files"}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_a_field_that_came_later_has_a_default(part: type[Any]) -> None:
    later = [field for field in fields(part) if field.name not in PARTS[part]]
    assert [field.name for field in later if not _has_default(field)] == []


def test_the_first_form_is_read(tmp_path: Path) -> None:
    manifest = read_manifest(_savepoint(tmp_path, CONTENT))
    assert manifest is not None
    assert (manifest.id, manifest.batch_id, manifest.position) == ("a", 7, Position("files", {"logOffset": 3}))
    assert (manifest.key_groups, manifest.bytes) == (4, 10)


def test_what_has_a_default_may_be_missing(tmp_path: Path) -> None:
    less = {name: value for name, value in CONTENT["counts"].items() if name not in DEFAULTS_OF_COUNTS}
    content = {name: value for name, value in CONTENT.items() if name != "files"} | {"counts": less}
    manifest = read_manifest(_savepoint(tmp_path, content))
    assert manifest is not None
    assert manifest.files == ()
    assert manifest.counts == Counts(events=9, keys=4, groups=2, sessions=5)


def _savepoint(folder: Path, content: dict[str, Any]) -> SavepointHome:
    home = SavepointHome.of(folder, "a")
    opened(home.root).mkdir()
    opened(home.manifest).write_text(json.dumps({**content, CHECKSUM: checksum(content)}))
    return home


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
