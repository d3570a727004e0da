"""Verdicts inside nested types, and on columns that an expression reads, beside what happens to real values."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionizer.core.wire.alignment import align_values
from sessionizer.core.wire.rows import REVISION
from sessionizer.deployment.differences import Difference, MigrationEffects, OpenState, SinkColumns
from sessionizer.deployment.spec_diff import NOTHING, PACKAGE, POSSIBLE, REFUSED, Checkout, SpecDiff, new_migrations
from sessionizer.deployment.verdicts import spec_differences
from sessionizer.errors import UnknownStream
from sessionizer.lineage.fingerprint import CHECKPOINT_FORMAT, DELTA, RELEASE, SPARK, code_digest
from sessionizer.stream_spec.effect import Verdict
from support.expected.type_trees import EDITS, TREES, Tree, arrow, ddl, edited, spark_json, value
from support.places import REPOSITORY
from support.streams.stage import clicks_spec


def values_in(found: Any, tree: Tree, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, str) or found is None:
        yield path, found
    elif isinstance(tree, tuple):
        inner = found[0] if tree[0] == "array" else found[0][1]
        yield from values_in(inner, tree[1], f"{path}.{'element' if tree[0] == 'array' else 'value'}")
    else:
        for name, kind in tree.items():
            yield from values_in(found[name], kind, f"{path}.{name}")


def judged(specs: Sequence[dict[str, Any]], state: OpenState, *pending: dict[str, Any]) -> list[Difference]:
    before, now = specs
    found = spec_differences(before, now, state, SinkColumns(), MigrationEffects.of(pending))
    return [each for each in found if each.name.startswith("mapping.")]


def document(columns: str, **mapping: Any) -> dict[str, Any]:
    return {"name": "clicks", "source": {"format": "files", "columns": columns}, "mapping": mapping}


@given(st.data(), TREES, st.sampled_from(EDITS), st.booleans())
@settings(max_examples=300)
def test_a_verdict_inside_a_type_is_what_becomes_of_its_values(
    data: st.DataObject, tree: Tree, edit: str, recorded: bool
) -> None:
    now = edited(tree, edit, data)
    state = OpenState(17, {"geo": [spark_json(tree)]} if recorded else {})
    specs = [document(f"u string, geo {ddl(each)}", payload={"geo": "geo"}) for each in (tree, now)]
    found = judged(specs, state)
    try:
        aligned = align_values(pa.array([value(tree)], arrow(tree)), arrow(now))[0].as_py()
    except pa.ArrowTypeError:
        assert [each.verdict for each in found] == [Verdict.INCOMPATIBLE]
        return
    had, has = dict(values_in(value(tree), tree, "geo")), dict(values_in(aligned, now, "geo"))
    lost = {path for path in had if path not in has}
    lacks = {path for path, each in has.items() if each is None}
    if lost or lacks:
        (difference,) = found
        assert difference.verdict is Verdict.PARTIAL
        assert "17 open sessions" in difference.reason
        named = difference.reason.replace(",", " ").split()
        for path in lost | lacks:
            assert any(path == each or path.startswith(f"{each}.") for each in named), (path, difference.reason)
    else:
        assert [each.verdict for each in found] == ([Verdict.IN_PLACE] if found else [])
        assert bool(found) == (edit == "widen" and now != tree)


GEO = "u double, geo struct<lat: double, lon: double, cc: string>, pts array<struct<x: int, y: int>>"


@pytest.mark.parametrize(
    ("sql", "verdict", "said"),
    [
        ("named_struct('latitude', geo.lat, 'lon', geo.lon, 'cc', geo.cc)", Verdict.PARTIAL, "geo.latitude"),
        ("struct(geo.lat, geo.lon)", Verdict.PARTIAL, "lose geo.cc"),
        ("struct(geo.lat, geo.lon, upper(geo.cc) as cc)", Verdict.PARTIAL, "old expression"),
        ("named_struct('lat', geo.lat, 'lon', geo.lon, 'cc', 7.5D)", Verdict.PARTIAL, "old expression"),
        (
            "named_struct('lat', geo.lat, 'lon', cast(geo.lon as int), 'cc', geo.cc)",
            Verdict.INCOMPATIBLE,
            "geo.lon",
        ),
        (" ( GEO ) ", None, ""),
    ],
)
def test_a_struct_that_is_made_anew_is_judged_by_its_fields(sql: str, verdict: Verdict | None, said: str) -> None:
    found = judged([document(GEO, payload={"geo": each}) for each in ("geo", sql)], OpenState(17))
    assert [each.verdict for each in found] == ([verdict] if verdict else [])
    assert all(said in each.reason for each in found)


FIELDS = {"key": Verdict.PARTIAL, "client": Verdict.PARTIAL, "event_id": Verdict.PARTIAL, "event_time": Verdict.PARTIAL,
          "closes": Verdict.IN_PLACE, "timeout_ms": Verdict.IN_PLACE}  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("sql", "before", "now", "changes"),
    [
        ("u", "u double", "u bigint", True),
        ("`U`", "u double", "u string", True),
        ("cast(u as string)", "u double", "u bigint", True),
        ("concat(v, u)", "u date", "u string", True),
        ("geo.id", "geo struct<id: double, cc: string>", "geo struct<id: bigint, cc: string>", True),
        ("geo.id", "geo struct<id: double, cc: string>", "geo struct<id: double, cc: int>", False),
        ("pts[0].x", "pts array<struct<x: int>>", "pts array<struct<x: string>>", True),
        ("u", "u int", "u bigint", False),
        ("hash(u)", "u int", "u bigint", True),
        ("u", "u decimal(10,2)", "u decimal(12,4)", True),
        ("'u'", "u double", "u bigint", False),
        ("u", "u string, v int", "v int, U STRING", False),
        ("u", "u double, v int", "v int", True),
    ],
)
def test_a_retyped_column_changes_each_expression_that_reads_it(
    field: str, sql: str, before: str, now: str, changes: bool
) -> None:
    found = judged([document(each, **{field: sql}) for each in (before, now)], OpenState(3))
    assert [(each.name, each.verdict) for each in found] == ([(f"mapping.{field}", FIELDS[field])] if changes else [])
    settled = judged([document(each, **{field: sql}) for each in (before, now)], OpenState(0))
    assert {each.verdict for each in settled} <= {Verdict.IN_PLACE}


def test_a_declared_migration_moves_a_key_that_reads_another_type() -> None:
    specs = [document(f"u {kind}", key="u") for kind in ("double", "bigint")]
    (found,) = judged(specs, OpenState(3), {"id": "whole", "key": "cast(cast(key as double) as bigint)"})
    assert found.verdict is Verdict.MIGRATE


def checkout(root: Path, **changes: Any) -> Checkout:
    """Specs alone, in the folder itself."""
    root.mkdir()
    (root / "clicks.yaml").write_text(yaml.safe_dump({"name": "clicks", **clicks_spec(), **changes}))
    return Checkout(root)


def compared(tmp_path: Path, **changes: Any) -> SpecDiff:
    before, now = checkout(tmp_path / "before"), checkout(tmp_path / "now", **changes)
    return SpecDiff.between("clicks", before.side("clicks"), now.side("clicks"), ["open sessions"])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, NOTHING),
        ({"owner": "web"}, NOTHING),
        ({"key_groups": 8}, POSSIBLE),
        ({"mapping": {**clicks_spec()["mapping"], "key": "device"}}, POSSIBLE),
        ({"source": {"format": "delta", "path": "feed"}}, REFUSED),
    ],
)
def test_the_exit_code_says_what_can_be_done(tmp_path: Path, changes: dict[str, Any], code: int) -> None:
    found = compared(tmp_path, **changes)
    assert found.exit_code == code
    told = json.loads(json.dumps(found.to_json()))
    assert (told["exit_code"], told["digest"], told["unseen"]) == (code, found.digest, ["open sessions"])


def test_what_must_be_accepted_is_named_though_no_session_was_seen(tmp_path: Path) -> None:
    found = compared(tmp_path, mapping={**clicks_spec()["mapping"], "key": "device"})
    assert found.unaccepted == ("mapping.key",)
    assert any(line.endswith("`sessionizer upgrade clicks --accept mapping.key`") for line in found.markdown())


def test_markdown_is_a_table_whose_cells_hold_any_expression(tmp_path: Path) -> None:
    found = compared(tmp_path, mapping={**clicks_spec()["mapping"], "key": "user_id || '`'\n  || device\n"})
    assert all("\n" not in line for line in (*found.lines(), *found.markdown()))
    (row,) = [line for line in found.markdown() if line.startswith("| **")]
    assert row.startswith(
        "| **partial** | `mapping.key`: key changed | `user_id` | `user_id \\|\\| '' \\|\\| device` |"
    )


def test_a_digest_is_of_the_differences(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    first, second = compared(tmp_path / "first", key_groups=8), compared(tmp_path / "second", key_groups=9)
    assert first.digest != second.digest


def test_a_checkout_of_the_product_tells_its_code_and_its_locked_versions() -> None:
    side = Checkout(REPOSITORY).side("clicks")
    assert side.fingerprint.code == code_digest()
    assert {RELEASE, SPARK, DELTA} <= side.fingerprint.versions.keys()
    assert SpecDiff.between("clicks", side, side).exit_code == NOTHING


def test_a_checkout_with_another_layout_of_the_state_differs(tmp_path: Path) -> None:
    """The number was read from a file that had been folded into another one, so it was always this release's."""
    with_code = checkout(tmp_path / "code")
    for package in ("lineage", "core/wire"):
        shutil.copytree(REPOSITORY / PACKAGE / package, with_code.root / PACKAGE / package)
    side = with_code.side("clicks")
    assert (side.checkpoint_format, side.revision) == (CHECKPOINT_FORMAT, REVISION)
    numbers = {"lineage": f"CHECKPOINT_FORMAT: Final = {CHECKPOINT_FORMAT}", "core/wire": 'REVISION: Final = "'}
    for package, now in numbers.items():
        (file,) = (file for file in (with_code.root / PACKAGE / package).glob("*.py") if f"\n{now}" in file.read_text())
        file.write_text(file.read_text().replace(f"\n{now}", f"\n{now}9"))
    later = with_code.side("clicks")
    assert (later.checkpoint_format, later.revision) == (int(f"{CHECKPOINT_FORMAT}9"), f"9{REVISION}")


def test_a_stream_that_is_not_in_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownStream):
        checkout(tmp_path / "before").side("visits")


def test_only_new_migrations_are_pending() -> None:
    before, now = {"migrations": [{"id": "a"}]}, {"migrations": [{"id": "a"}, {"id": "b"}]}
    assert new_migrations(before, now) == [{"id": "b"}]
    assert new_migrations({}, {}) == []
