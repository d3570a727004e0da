"""Plan of going on without lost events: its digest covers each loss."""

import json
from dataclasses import replace
from typing import Any

import pytest

from sessionizer.state.commands.moves import LossPlan
from support.fixtures.reviewed import Reviewed

PLAN = LossPlan("clicks", "20261125T203724-b28b91", 7, "f" * 64, ("2 records: offsets 3 to 4",), "clicks {'0': 5}")


def test_it_names_what_is_lost() -> None:
    assert "  lost  2 records: offsets 3 to 4" in list(PLAN.lines())
    assert json.loads(json.dumps(PLAN.to_json()))["lost"] == ["2 records: offsets 3 to 4"]


def test_many_losses_are_counted(reviewed: Reviewed) -> None:
    many = replace(PLAN, lost=tuple(f"file {number}" for number in range(25)))
    reviewed(list(many.lines()))


@pytest.mark.parametrize("change", [{"lost": ("file a",)}, {"lineage": "other"}, {"fingerprint": "e" * 64}])
def test_another_decision_has_another_digest(change: dict[str, Any]) -> None:
    assert replace(PLAN, **change).digest != PLAN.digest


@pytest.mark.parametrize("change", [{"batch_id": 8}, {"begins": "clicks {'0': 9}"}])
def test_figures_that_move_do_not_count(change: dict[str, Any]) -> None:
    assert replace(PLAN, **change).digest == PLAN.digest
