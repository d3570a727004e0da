"""What applying a changed spec would do: each field is taken in one way, or refused by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessionizer.deployment.apply_plan import ApplyPlan, Way, plan_apply
from sessionizer.deployment.refusals import require_continuable
from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.decisions import changes_between, decided_by, decisions_of, document_of
from sessionizer.stream_spec.document.stream import StreamSpec
from support.streams.stage import clicks_spec

OTHER_SOURCE = {"source": {**clicks_spec()["source"], "path": "elsewhere"}}
BEFORE = document_of(StreamSpec.model_validate({**clicks_spec(), "name": "clicks"}))


def plan(changes: dict[str, Any], *, anew: bool = False) -> ApplyPlan:
    spec = StreamSpec.model_validate({**clicks_spec(), "name": "clicks", **changes})
    return plan_apply("clicks", ("20261123T143621-abe542", 7), BEFORE, spec, anew=anew)


def rules(**changed: Any) -> dict[str, Any]:
    return {"rules": {**clicks_spec()["rules"], **changed}}


@pytest.mark.parametrize(
    ("changes", "field", "way", "anew"),
    [
        (rules(gap_timeout="5 seconds"), "rules.gap_timeout", Way.IN_PLACE, False),
        ({"mapping": {**clicks_spec()["mapping"], "key": "device"}}, "mapping.key", Way.IN_PLACE, False),
        ({"key_groups": 8}, "key_groups", Way.NEW_LINEAGE, True),
        (OTHER_SOURCE, "source.path", Way.OTHER_VERB, False),
        (rules(time_mode="processing_time"), "rules.time_mode", Way.NEVER, False),
    ],
)
def test_each_field_is_taken_in_one_way(changes: dict[str, Any], field: str, way: Way, anew: bool) -> None:
    found = plan(changes)
    (taken,) = [taken for taken in found.fields if taken.field == field]
    assert (taken.way, found.anew) == (way, anew)
    assert found.is_possible == (way in {Way.IN_PLACE, Way.NEW_LINEAGE})
    assert f"  {taken.line(anew=anew)}" in list(found.lines())
    if not found.is_possible:
        with pytest.raises(InvalidSpec) as raised:
            found.require_possible()
        assert raised.value.field == field


@pytest.mark.parametrize("changes", [rules(gap_timeout="5 seconds"), {"key_groups": 8}, OTHER_SOURCE])
def test_what_is_taken_in_place_is_what_a_start_takes(changes: dict[str, Any]) -> None:
    spec = StreamSpec.model_validate({**clicks_spec(), "name": "clicks", **changes})
    in_place = all(taken.way is Way.IN_PLACE for taken in plan(changes).fields)
    try:
        require_continuable(changes_between(decided_by(BEFORE), decisions_of(spec)))
    except InvalidSpec:
        assert not in_place
    else:
        assert in_place


def test_nothing_to_apply_is_said_and_nothing_is_possible() -> None:
    found = plan({})
    assert not found.is_possible
    found.require_possible()
    assert list(found.lines()) == ["stream clicks runs by what its file says: there is nothing to apply"]


def test_the_digest_is_of_what_is_decided_and_not_of_how_far_the_stream_has_come() -> None:
    changes = rules(gap_timeout="5 seconds")
    spec = StreamSpec.model_validate({**clicks_spec(), "name": "clicks", **changes})
    later = plan_apply("clicks", ("20261123T143621-abe542", 99), BEFORE, spec, anew=False)
    assert later.digest == plan(changes).digest
    others = {
        plan(changes, anew=True).digest,
        plan(rules(gap_timeout="6 seconds")).digest,
        plan({"key_groups": 8}).digest,
    }
    assert len({later.digest, *others}) == 4
    assert json.loads(json.dumps(later.to_json()))["digest"] == later.digest


def test_where_it_goes_on_is_in_the_plan() -> None:
    changes = rules(gap_timeout="5 seconds")
    assert "  rules.gap_timeout: '30 seconds' → '5 seconds' (in place)" in list(plan(changes).lines())
    assert "  rules.gap_timeout: '30 seconds' → '5 seconds' (in a new lineage)" in list(
        plan(changes, anew=True).lines()
    )
    assert "  to    a new lineage with every open session" in list(plan(changes, anew=True).lines())
    stays = "  it stays in lineage 20261123T143621-abe542, after batch 7 or later: no rollback undoes it"
    assert stays in list(plan(changes).lines())
