"""Revisions of the layout of open events: one line, frozen once released, and none forgotten."""

import hashlib
import importlib
import json
import pkgutil
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sessionizer
from sessionizer.core.definition.rules import Clock
from sessionizer.core.wire import rows, schema
from sessionizer.core.wire.canonical import canonical_schema
from sessionizer.core.wire.codec import tombstones
from sessionizer.errors import UnreadableLineage
from sessionizer.home.json_record import WRITER
from sessionizer.lineage import fingerprint as checkpoint_record
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.fingerprint import (
    CHECKPOINT_FORMAT,
    CheckpointRecord,
    record_of,
    require_readable_lineage,
)
from sessionizer.migrations import graph, versions
from sessionizer.migrations.graph import (
    BrokenRevisions,
    Revision,
    UnknownRevision,
    bring_to,
    line_of_revisions,
    order_revisions,
    revisions_before_head,
)
from support.places import REPOSITORY
from support.releases.cut_release import MADE_BY
from support.streams.stage import Stage, clicks_spec

RELEASES = REPOSITORY / "tests" / "golden" / "releases"
FOLDERS = sorted(folder for folder in RELEASES.iterdir() if folder.is_dir())
GOLDEN_FILES = ("checkpoint.tar.xz", "canonical.tar.xz", "native.tar.xz", "expected.json", MADE_BY)
PAYLOAD = [pa.field("page", pa.string())]


def appending(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.append_column(name, pa.nulls(table.num_rows, pa.int32()))


def unchanged(table: pa.Table) -> pa.Table:
    return table


FIRST = Revision("0001", None, unchanged)
SECOND = Revision("0002", "0001", appending("two"))
THIRD = Revision("0003", "0002", appending("three"))


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> tuple[Revision, ...]:
    found = line_of_revisions([THIRD, FIRST, SECOND])
    monkeypatch.setattr(graph, "order_revisions", lambda: found)
    return found


@pytest.mark.parametrize(
    ("found", "columns"), [("0001", ["key", "two", "three"]), ("0002", ["key", "three"]), ("0003", ["key"])]
)
def test_open_events_are_brought_along_the_line(line: tuple[Revision, ...], found: str, columns: list[str]) -> None:
    assert [each.revision for each in line] == ["0001", "0002", "0003"]
    assert revisions_before_head() == ("0001", "0002")
    assert bring_to(pa.table({"key": ["ann"]}), found).column_names == columns


@pytest.mark.usefixtures("line")
def test_an_unknown_revision_is_refused() -> None:
    with pytest.raises(UnknownRevision, match="0009"):
        bring_to(pa.table({"key": ["ann"]}), "0009")


@pytest.mark.parametrize(
    ("revisions", "remedy"),
    [
        ([FIRST, SECOND, Revision("0003", "0001", unchanged)], "0002 and 0003 follow 0001. Let the newer one follow"),
        ([FIRST, Revision("0002", None, unchanged)], "0001 and 0002 follow None"),
        ([FIRST, THIRD], "0003 follows 0002, which is not there. Add 0002"),
        ([Revision("0001", "0002", unchanged), Revision("0002", "0001", unchanged)], "Correct down_revision"),
    ],
)
def test_two_heads_or_a_gap_fail_with_their_remedy(revisions: list[Revision], remedy: str) -> None:
    with pytest.raises(BrokenRevisions, match=remedy):
        line_of_revisions(revisions)


def test_the_head_is_the_revision_that_is_written() -> None:
    assert order_revisions()[-1].revision == rows.REVISION, "add a module to sessionizer.migrations.versions"


# What was released stays as it was


def modules() -> dict[str, Path]:
    found = (each.name for each in pkgutil.iter_modules(versions.__path__))
    return {name: Path(str(importlib.import_module(f"{versions.__name__}.{name}").__file__)) for name in found}


def digests() -> dict[str, str]:
    return {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in modules().items()}


def edited(released: dict[str, str], now: dict[str, str]) -> list[str]:
    remedy = "is released and was changed. Restore it, and add a new revision"
    return [f"{name} {remedy}" for name, digest in released.items() if now.get(name) != digest]


def test_a_released_revision_is_frozen() -> None:
    released: dict[str, str] = json.loads((RELEASES / "revisions.json").read_text())
    assert edited(released, digests()) == []
    assert edited({**released, "0001_open_events": "0"}, digests()) != []
    assert set(released) == set(digests()), "add the digest of the new revision to tests/golden/releases/revisions.json"


def layout() -> dict[str, Any]:
    """The layout of open events, in the state and in savepoints."""
    return {
        "revision": rows.REVISION,
        "checkpoint_format": CHECKPOINT_FORMAT,
        "initial": rows.INITIAL,
        "tombstones": str(tombstones(np.zeros(1, np.bool_)).schema).splitlines(),
        "canonical": {
            mode.value: str(canonical_schema(schema.event_schema(PAYLOAD, mode))).splitlines() for mode in Clock
        },
    }


def test_another_layout_is_another_revision() -> None:
    golden = json.loads((RELEASES / "layout.json").read_text())
    remedy = "the layout of open events changed: add a revision, raise REVISION, and write layout.json anew"
    assert golden == layout(), remedy


def missing(release: Path) -> list[str]:
    remedy = "is missing. Run `python -m support.releases.cut_release` at the tag of the release"
    return [f"{release.name}/{name} {remedy}" for name in GOLDEN_FILES if not (release / name).is_file()]


def test_every_release_has_its_golden_files(tmp_path: Path) -> None:
    """The version of now may be tagged and not cut yet, a version before it may not."""
    told = re.findall(r"^## ([\d.]+) ", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert set(told) - {sessionizer.__version__} <= {folder.name for folder in FOLDERS}, "cut it at its tag"
    assert [name for folder in FOLDERS for name in missing(folder)] == []
    assert len(missing(tmp_path)) == len(GOLDEN_FILES)


@pytest.mark.parametrize("release", FOLDERS, ids=lambda folder: folder.name)
def test_golden_files_are_of_the_code_that_was_tagged(release: Path) -> None:
    record = json.loads((release / MADE_BY).read_text())
    assert record["version"] == release.name
    with tarfile.open(release / "checkpoint.tar.xz") as packed:
        kept = [file for file in packed.getmembers() if file.name.endswith("/fingerprint.json")]
        codes = {json.loads(packed.extractfile(file).read())["code"] for file in kept}  # type: ignore[union-attr]
    assert codes == {record["code"]}
    before_any_tag = release.name in {"0.1.0", "0.2.0"}  # made of code that is no commit
    assert before_any_tag or re.fullmatch("[0-9a-f]{40}", record["commit"])


def names_in(archive: Path) -> set[str]:
    """The hosts that the records in an archive name, and the owners of its files."""
    with tarfile.open(archive) as packed:
        files = [file for file in packed.getmembers() if file.name.endswith(".json") and "_delta_log" not in file.name]
        records = [json.loads(found.read()) for file in files if (found := packed.extractfile(file))]
        owners = {file.uname for file in packed.getmembers()} - {""}
    hosts = {str(record[name]) for record in records for name in ("host", "machine") if record.get(name)}
    return owners | hosts | {str(record[WRITER]).partition("@")[2] for record in records if WRITER in record}


@pytest.mark.parametrize(
    "archive", sorted(RELEASES.glob("*/*.tar.xz")), ids=lambda file: f"{file.parent.name}-{file.name}"
)
def test_golden_files_do_not_tell_whose_machine_made_them(archive: Path) -> None:
    assert names_in(archive) == {"golden"}


def test_the_changelog_has_a_section_of_this_release() -> None:
    titles = [line for line in (REPOSITORY / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert titles[0] == "## Unreleased", "begin CHANGELOG.md with a section for what comes next"
    version = r"[\d.]+" if "dev" in sessionizer.__version__ else re.escape(sessionizer.__version__)
    assert re.fullmatch(rf"## {version} \(\d{{4}}-\d\d-\d\d\)", titles[1]), (
        "CONTRIBUTING.md says how a release is cut: make a section of this version, with its date"
    )


def test_a_lineage_of_an_older_revision_is_sent_to_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage.set_up(tmp_path, clicks_spec())
    home = stage.stream_home
    home.prepare()
    lineage = start_lineage(home)
    require_readable_lineage(home, lineage)
    monkeypatch.setattr(checkpoint_record, "revisions_before_head", lambda: (rows.REVISION,))
    now = CheckpointRecord(CHECKPOINT_FORMAT, "9999", record_of(home).owner)
    monkeypatch.setattr(checkpoint_record, "record_of", lambda _: now)
    told = rf"release {sessionizer.__version__} made it: .*Run `sessionizer upgrade clicks`"
    with pytest.raises(UnreadableLineage, match=told):
        require_readable_lineage(home, lineage)
