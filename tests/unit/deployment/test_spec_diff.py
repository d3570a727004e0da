"""The differences of two checkouts, as a pull request shows them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessionizer.core.wire.rows import REVISION
from sessionizer.deployment.spec_diff import NOTHING, PACKAGE, POSSIBLE, REFUSED, Checkout, SpecDiff, new_migrations
from sessionizer.errors import UnknownStream
from sessionizer.lineage.fingerprint import CHECKPOINT_FORMAT, DELTA, RELEASE, SPARK, code_digest
from support.places import REPOSITORY
from support.streams.stage import clicks_spec


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
    found = compared(tmp_path, mapping={**clicks_spec()["mapping"], "key": "user_id || '`' || device"})
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
