"""A manifest comes back as it was written, or says what became of it."""

import json
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, replace
from pathlib import Path
from typing import Any

import pytest

from sessionizer.errors import DamagedFile
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
    differences,
    read_manifest,
    write_manifest,
)
from support.checkpoints.fabricated_checkpoints import manifest_of
from support.places import REPOSITORY, opened


@pytest.fixture
def home(tmp_path: Path) -> SavepointHome:
    found = SavepointHome.of(tmp_path, "a")
    opened(found.root).mkdir()
    write_manifest(found, manifest_of("a"))
    return found


def test_it_comes_back_as_it_was(home: SavepointHome) -> None:
    assert read_manifest(home) == manifest_of("a")
    assert read_manifest(SavepointHome.of(home.root.parent, "b")) is None
    known = replace(manifest_of("a"), source_ids={"clicks": "A"})
    write_manifest(home, known)
    assert read_manifest(home) == known


def rewrite(home: SavepointHome, change: Callable[[dict[str, Any]], None], *, sealed: bool) -> None:
    content = json.loads(opened(home.manifest).read_text())
    change(content)
    if sealed:
        content[CHECKSUM] = checksum(content)
    opened(home.manifest).write_text(json.dumps(content))


@pytest.mark.parametrize("field", Manifest.__dataclass_fields__)
def test_no_field_can_be_changed_unnoticed(home: SavepointHome, field: str) -> None:
    rewrite(home, lambda content: content.update({field: "other"}), sealed=False)
    with pytest.raises(DamagedFile, match="checksum"):
        read_manifest(home)


def test_the_order_of_fields_and_a_field_of_a_newer_release_do_no_harm(home: SavepointHome) -> None:
    rewrite(home, lambda content: content.update(dict(reversed(content.items())), novelty=1), sealed=True)
    assert read_manifest(home) == manifest_of("a")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.pop("counts"), "counts"),
        (lambda content: content.pop("batch_id"), "batch_id"),
        (lambda content: content.update(format=2), "newer release"),
        (lambda content: content.update(kind="odd"), "odd"),
    ],
)
def test_what_it_lacks_is_said(home: SavepointHome, change: Callable[[dict[str, Any]], None], said: str) -> None:
    rewrite(home, change, sealed=True)
    with pytest.raises(DamagedFile, match=said):
        read_manifest(home)


def test_half_a_manifest_is_damage(home: SavepointHome) -> None:
    opened(home.manifest).write_text(opened(home.manifest).read_text()[:100])
    with pytest.raises(DamagedFile, match="not JSON"):
        read_manifest(home)


def test_two_differ_in_what_they_are_of_and_not_in_who_they_are() -> None:
    assert differences(manifest_of("a"), manifest_of("b", made_at=5)) == ()
    changes = differences(manifest_of("a"), manifest_of("b", batch_id=8))
    assert [str(change) for change in changes] == ["batch_id: 7 → 8"]


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
