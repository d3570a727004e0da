"""What a spec decides of a batch, by the names and in the words of a spec."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.decisions import (
    Change,
    Decisions,
    changes_between,
    decisions_of,
    document_of,
    field_at,
    list_decisions,
    spec_fingerprint,
)
from sessionizer.stream_spec.document.source import SOURCES
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import FieldEffect, Verdict
from sessionizer.stream_spec.spec_folder import parse_recorded_spec
from support.faults.bad_clicks import KAFKA, changed
from support.fixtures.reviewed import Reviewed

GIVEN: dict[str, dict[str, Any]] = {
    "files": {
        "format": "files",
        "path": "p",
        "encoding": "json",
        "columns": "a int",
        "options": {"allowComments": True},
    },
    "delta": {"format": "delta", "path": "p", "options": {"fs.a": 1}},
    "kafka": {
        **KAFKA,
        "encoding": "avro",
        "schema": {"file": "clicks.avsc", "columns": "u string", "content": "{}"},
        "registry": {"url": "https://registry:8081", "subject": "clicks-value"},
        "options": {"minPartitions": 3},
        "options_from_environment": {"kafka.sasl.jaas.config": "JAAS"},
    },
    "socket": {"format": "socket", "host": "localhost", "port": 9999},
}
FILLED: dict[str, Any] = {
    "measures/pages": "count(page)",
    "rules/client_timeouts": {"app": "90 seconds", "ünï.☃😀": "1 day"},
    "rules/max_duration": None,
    "migrations": [{"id": "users", "key": "user_id"}],
}


def fields_of(section: BaseModel, prefix: str = "") -> Iterator[str]:
    for name, field in type(section).model_fields.items():
        value, path = getattr(section, name), f"{prefix}{field.alias or name}"
        if isinstance(value, BaseModel):
            yield from fields_of(value, f"{path}.")
        else:
            yield path


def fingerprint(changes: dict[str, Any]) -> str:
    return spec_fingerprint(StreamSpec.model_validate(changed(changes)))


def decisions(changes: dict[str, Any]) -> Decisions:
    return decisions_of(StreamSpec.model_validate(changed(changes)))


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"key_groups": 17}, {"key_groups": 17}),
        ({"name": "other"}, {"name": "other"}),
        ({"source/options/allowComments": True}, {"source.options.allowComments": "true"}),
        ({"mapping/key": "lower(user_id)"}, {"mapping.key": "lower(user_id)"}),
        ({"mapping/timeout_ms": "timeout_s * 7"}, {"mapping.timeout_ms": "timeout_s * 7"}),
        ({"mapping/payload/other": "page"}, {"mapping.payload.other": "page"}),
        ({"rules/gap_timeout": "31 minutes"}, {"rules.gap_timeout": "31 minutes"}),
        ({"rules/max_duration": None}, {"rules.max_duration": None}),
        ({"rules/max_events": 7}, {"rules.max_events": 7}),
        ({"trigger_interval": "1 hour"}, {"trigger_interval": "1 hour"}),
        ({"source/path": "other"}, {"source.path": "other"}),
        ({"source/options/maxFilesPerTrigger": 7}, {"source.options.maxFilesPerTrigger": "7"}),
        ({"measures/pages": "count(page)"}, {"measures.pages": "count(page)"}),
        ({"sink/keep_events": False}, {"sink.keep_events": False}),
        ({"rules/time_mode": "none", "rules/idle_after": None}, {"rules.time_mode": "none", "rules.idle_after": None}),
        (
            {"rules/client_timeouts": {"app": "90 seconds"}, "mapping/client": "app"},
            {"rules.client_timeouts.app": "90 seconds", "mapping.client": "app"},
        ),
    ],
)
def test_a_change_is_told_by_the_name_of_its_field(changes: dict[str, Any], fields: dict[str, object]) -> None:
    before, now = decisions({}), decisions(changes)
    found = changes_between(before, now)
    assert {change.field: change.now for change in found} == fields
    assert {change.field: change.before for change in changes_between(now, before)} == fields
    assert all(change.before == before.get(change.field) for change in found)
    assert fingerprint(changes) != fingerprint({})


@pytest.mark.parametrize(
    "changes",
    [
        {"description": "other"},
        {"owner": "other"},
        {"rules/gap_timeout": "30 minutes"},
        {"rules/gap_timeout": "1800 seconds"},
        {"key_groups": 16},
        {"savepoints/every": "1 hour", "savepoints/keep": "1 day", "savepoints/at_least": 9},
        {"upgrades/window": "Sun 03:00-05:00", "upgrades/policy": "apply"},
    ],
)
def test_what_is_beside_the_stream_and_how_it_is_written_is_no_change(changes: dict[str, Any]) -> None:
    assert changes_between(decisions({}), decisions(changes)) == ()
    assert fingerprint(changes) == fingerprint({})


def test_a_fingerprint_is_a_sha256_whatever_the_order_of_keys() -> None:
    spec = changed({"mapping/payload/other": "page"})
    turned = {key: spec[key] for key in reversed(spec)}
    assert spec_fingerprint(StreamSpec.model_validate(turned)) == spec_fingerprint(StreamSpec.model_validate(spec))
    assert len(bytes.fromhex(fingerprint({}))) == 32


def test_a_field_that_an_earlier_release_did_not_have_is_no_change_as_long_as_it_is_null() -> None:
    assert changes_between({"key_groups": 16}, {"key_groups": 16, "rules.newer": None}) == ()
    assert changes_between({"a": 1}, {"b": 2}) == (Change("b", None, 2), Change("a", 1, None))


@pytest.mark.parametrize("source", [*SOURCES])
def test_a_field_that_an_earlier_release_did_not_have_is_no_change_at_its_default(source: str) -> None:
    written: dict[str, Any] = changed({"source": GIVEN[source], "rules": {}, "sink": {}})
    spec = StreamSpec.model_validate({name: written[name] for name in ("name", "source", "mapping", "rules", "sink")})
    now, kept = decisions_of(spec), list_decisions(document_of(spec))
    by_itself = {field: known.default for field in now if (known := field_at(field)) and known.default is not None}
    known_ones = ("sink.change_feed", "rules.gap_timeout", "rules.max_events", "trigger_interval", "key_groups")
    assert by_itself.keys() >= {*known_ones}
    assert {field: now[field] for field in by_itself} == by_itself
    for field in by_itself:
        without = {name: value for name, value in kept.items() if name != field}
        assert changes_between(without, now) == changes_between(now, without) == ()
    other = {"sink.change_feed": True, "key_groups": 17}
    changes = changes_between({name: kept[name] for name in kept if name not in other}, {**now, **other})
    found = {change.field: (change.before, change.now) for change in changes}
    assert found == {name: (None, value) for name, value in other.items()}


def test_a_block_that_was_not_there_is_a_change_also_with_its_defaults() -> None:
    now = decisions_of(StreamSpec.model_validate(changed({"source": GIVEN["kafka"]})))
    before = {name: value for name, value in now.items() if not name.startswith("source.registry.")}
    assert [change.field for change in changes_between({**before, "source.registry": None}, now)] == [
        name for name, value in now.items() if name.startswith("source.registry.") and value is not None
    ]


@pytest.mark.parametrize("source", [*SOURCES])
def test_no_field_is_forgotten(source: str) -> None:
    """Each field of each block declares its effect, and is decided if it has one."""
    spec = StreamSpec.model_validate(changed({"source": GIVEN[source], "mapping/client": "c", **FILLED}))
    decided = set(decisions_of(spec))
    for name in fields_of(spec):
        known = field_at(name)
        assert known is not None, f"declare what a change of {name} does to open sessions"
        has_effect = known.effect.verdict is not Verdict.NONE
        assert has_effect == any(one == name or one.startswith(f"{name}.") for one in decided), name
    for name, field in type(spec.source).model_fields.items():
        known = field_at(f"source.{field.alias or name}")
        declared = [each for each in field.metadata if isinstance(each, FieldEffect)]
        assert known is not None
        assert declared == [known.effect], f"sources declare different effects of {name}"


@pytest.mark.parametrize("source", [*SOURCES])
def test_a_spec_comes_back_from_its_record(source: str, tmp_path: Path) -> None:
    spec = StreamSpec.model_validate(changed({"source": GIVEN[source], "mapping/client": "c", **FILLED}))
    document = json.loads(json.dumps(document_of(spec)))
    assert parse_recorded_spec(document, tmp_path) == spec
    assert list_decisions(document) == decisions_of(spec)


def test_a_record_that_this_release_refuses_is_named_with_its_file_and_field(
    tmp_path: Path, reviewed: Reviewed
) -> None:
    document = document_of(StreamSpec.model_validate(changed({})))
    with pytest.raises(InvalidSpec) as raised:
        parse_recorded_spec({**document, "rules": {**document["rules"], "older": 1}}, tmp_path / "spec.json")
    reviewed(raised.value)
