"""Each kind of difference has its verdict: a column, a rule, a source, a release, a program, a setting."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sessionizer.checkpoint.log_entries import PARTITIONS
from sessionizer.deployment.differences import Difference, MigrationEffects, OpenState, Side, SinkColumns
from sessionizer.deployment.verdicts import judge_differences, judge_field
from sessionizer.lineage.fingerprint import DELTA, JAVA, PYTHON, RELEASE, SPARK, Fingerprint
from sessionizer.stream_spec.column_types import ColumnType
from sessionizer.stream_spec.decisions import Change, document_of, list_decisions
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.effect import Verdict
from support.streams.stage import clicks_spec

NONE, IN_PLACE, MIGRATE = Verdict.NONE, Verdict.IN_PLACE, Verdict.MIGRATE
PARTIAL, UNKNOWN, INCOMPATIBLE = Verdict.PARTIAL, Verdict.UNKNOWN, Verdict.INCOMPATIBLE
OPEN = OpenState(12, {"units": ["integer"], "page": ["string"], "amount": ["double"]})
COLUMNS = clicks_spec()["source"]["columns"]
VERSIONS = {RELEASE: "0.2.0", PYTHON: "3.11.2", SPARK: "4.2.0", DELTA: "4.4.0", JAVA: "17.0.9", "pyarrow": "26.0.0"}
SETTINGS = {PARTITIONS: "4", "spark.sql.streaming.stateStore.compression.codec": "lz4"}
DROP = {"id": "drop", "drop": ["device"]}
CLIENT = {"id": "client", "client": "upper(client)"}
RENAME = {"id": "rename", "columns": {"address": "page"}, "drop": ["page"]}


def written(**changes: Any) -> dict[str, Any]:
    """The spec with other values, each named by its path with two underscores for a dot. None removes it."""
    spec = deepcopy({**clicks_spec(), "name": "clicks", "measures": {"pages": "count(page)"}})
    spec["mapping"]["payload"]["units"] = "cast(amount as int)"
    spec["rules"]["client_timeouts"] = {"acme": "1 minute"}
    for path, value in changes.items():
        *blocks, last = path.split("__")
        block = spec
        for name in blocks:
            block = block.setdefault(name, {})
        block.pop(last, None)
        if value is not None:
            block[last] = value
    return spec


def document(spec: dict[str, Any]) -> dict[str, Any]:
    return document_of(StreamSpec.model_validate(spec))


def side(spec: dict[str, Any], versions: Mapping[str, str] | None = None, **others: Any) -> Side:
    print_of = Fingerprint("c0de", {**VERSIONS, **(versions or {})}, {**SETTINGS, **others.pop("settings", {})})
    return replace(Side(spec, print_of, 1, "0002"), **others)


BEFORE = document(written())


@dataclass(frozen=True)
class Edit:
    """A change, and the difference that it must be judged as. ``name`` is empty for the field that was written."""

    kind: str
    verdict: Verdict
    changes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    state: OpenState = OPEN
    pending: Sequence[Mapping[str, Any]] = ()
    tables: SinkColumns | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    side: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)

    def found(self) -> tuple[Difference, ...]:
        spec = {**document(written(**self.changes)), **self.document}
        now = side(spec, self.versions, **dict(self.side))
        revisions = frozenset(["0002"])
        return judge_differences(
            side(BEFORE), now, self.state, tables=self.tables, pending=self.pending, revisions=revisions
        )


def payload(**columns: Any) -> dict[str, Any]:
    return {f"mapping__payload__{name}": expression for name, expression in columns.items()}


def of_payload(name: str) -> str:
    return f"mapping.payload.{name}"


EMPTY = OpenState(0, {})
UNSEEN = OpenState(None, {})
LONGER = {"mapping__payload": dict(reversed(BEFORE["mapping"]["payload"].items()))}
WIDER_SOURCE = {"source__columns": COLUMNS.replace("timeout_s int", "timeout_s bigint")}
OTHER_SOURCE = {"format": "delta", "path": "feed"}
CHANGES_OTHERS = {"time mode changed", "source of another type", "source column retyped"}
"""Kinds of a field that others depend on: the default of ``idle_after``, the options of a source, an expression."""

PAYLOAD_EDITS = [
    Edit("column added", PARTIAL, payload(country="client"), of_payload("country")),
    Edit("column added", IN_PLACE, payload(country="client"), of_payload("country"), state=EMPTY),
    Edit("column added", PARTIAL, payload(country="client"), of_payload("country"), state=UNSEEN),
    Edit("column added", MIGRATE, payload(country="client"), of_payload("country"),
         pending=[{"id": "c", "columns": {"country": "'nl'"}}]),
    Edit("column dropped", IN_PLACE, payload(device=None), of_payload("device")),
    Edit("column dropped", MIGRATE, payload(device=None), of_payload("device"), pending=[DROP]),
    Edit("column renamed", PARTIAL, payload(page=None, address="page"), of_payload("address")),
    Edit("column renamed", PARTIAL, payload(page=None, address=" `page` "), of_payload("address")),
    Edit("column renamed", IN_PLACE, payload(page=None, address="page"), of_payload("address"), state=EMPTY),
    Edit("column renamed", MIGRATE, payload(page=None, address="page"), of_payload("address"), pending=[RENAME]),
    Edit("column renamed", MIGRATE, payload(page=None, address="lower(page)"), of_payload("address"), pending=[RENAME]),
    Edit("columns reordered", NONE, LONGER, "mapping.payload"),
    Edit("column widened", IN_PLACE, payload(units="cast(amount as bigint)"), of_payload("units")),
    Edit("column widened", INCOMPATIBLE, payload(units="cast(amount as bigint)"), of_payload("units"),
         tables=SinkColumns({"units": ColumnType("int")})),
    Edit("column widened", IN_PLACE, payload(units="cast(amount as bigint)"), of_payload("units"),
         tables=SinkColumns({"units": ColumnType("int")}, may_widen=True)),
    Edit("column narrowed", INCOMPATIBLE, payload(units="cast(amount as smallint)"), of_payload("units")),
    Edit("column narrowed", MIGRATE, payload(units="smallint(amount)"), of_payload("units"),
         pending=[{"id": "n", "columns": {"units": "cast(units as smallint)"}}]),
    Edit("column narrowed", INCOMPATIBLE, payload(units="smallint(amount)"), of_payload("units"),
         tables=SinkColumns({"units": ColumnType("int")}, may_widen=True), state=EMPTY),
    Edit("column narrowed", IN_PLACE, payload(units="smallint(amount)"), of_payload("units"), state=EMPTY),
    Edit("column of another type", INCOMPATIBLE, payload(page="cast(page as int)"), of_payload("page")),
    Edit("column of another type", INCOMPATIBLE, payload(amount="cast(amount as decimal(10,2))"), of_payload("amount")),
    Edit("column made non-null", PARTIAL, payload(page="coalesce(page, '')"), of_payload("page")),
    Edit("column made non-null", IN_PLACE, payload(page="nvl(page, '/')"), of_payload("page"), state=EMPTY),
    Edit("column computed otherwise", PARTIAL, payload(page="lower(page)"), of_payload("page")),
    Edit("column computed otherwise", PARTIAL, payload(page="reverse(page)"), of_payload("page")),
    Edit("column computed otherwise", MIGRATE, payload(page="lower(page)"), of_payload("page"),
         pending=[{"id": "p", "columns": {"page": "lower(page)"}}]),
]  # fmt: skip

FIELD_EDITS = [
    Edit("no effect", NONE, {"description": "another"}),
    Edit("no effect", NONE, {"owner": "web"}),
    Edit("no effect", NONE, {"savepoints__every": "1 hour"}),
    Edit("key changed", PARTIAL, {"mapping__key": "device"}),
    Edit("key changed", IN_PLACE, {"mapping__key": "device"}, state=EMPTY),
    Edit("key changed", MIGRATE, {"mapping__key": "device"}, pending=[{"id": "k", "key": "device"}]),
    Edit("client changed", PARTIAL, {"mapping__client": "upper(client)"}),
    Edit("client changed", MIGRATE, {"mapping__client": "upper(client)"}, pending=[CLIENT]),
    Edit("event time changed", PARTIAL, {"mapping__event_time": "timestamp_millis(ts)"}),
    Edit("event id changed", PARTIAL, {"mapping__event_id": "concat(event_id, ts)"}),
    Edit("closes changed", IN_PLACE, {"mapping__closes": "type <=> 'exit'"}),
    Edit("timeout expression changed", IN_PLACE, {"mapping__timeout_ms": "timeout_s * 2000L"}),
    Edit("timeout expression changed", MIGRATE, {"mapping__timeout_ms": "timeout_s * 2000L"},
         pending=[{"id": "t", "timeout_ms": "timeout_ms * 2"}]),
    Edit("gap tightened", IN_PLACE, {"rules__gap_timeout": "5 seconds"}),
    Edit("gap loosened", IN_PLACE, {"rules__gap_timeout": "5 minutes"}),
    Edit("client's gap loosened", IN_PLACE, {"rules__client_timeouts": {"acme": "2 minutes"}},
         "rules.client_timeouts.acme"),
    Edit("client's gap set", IN_PLACE, {"rules__client_timeouts__web": "2 minutes"}),
    Edit("table of timeouts changed", IN_PLACE, {"rules__client_timeouts_table": "lake/timeouts"}),
    Edit("cap changed", IN_PLACE, {"rules__max_events": 5}),
    Edit("cap changed", IN_PLACE, {"rules__max_bytes": 1_000_000}),
    Edit("cap tightened", IN_PLACE, {"rules__max_duration": "1 hour"}),
    Edit("cap of a row changed", IN_PLACE, {"rules__max_event_bytes": 1_000}),
    Edit("watermark delay loosened", IN_PLACE, {"rules__watermark_delay": "1 minute"}),
    Edit("watermark delay tightened", IN_PLACE, {"rules__watermark_delay": "1 second"}),
    Edit("emit_every loosened", IN_PLACE, {"rules__emit_every": "1 minute"}),
    Edit("idle_after tightened", IN_PLACE, {"rules__idle_after": "5 seconds"}),
    Edit("future tolerance tightened", IN_PLACE, {"rules__future_tolerance": "5 seconds"}),
    Edit("time mode changed", INCOMPATIBLE, {"rules__time_mode": "processing_time"}),
    Edit("measure added", IN_PLACE, {"measures__sum": "sum(amount)"}),
    Edit("measure dropped", IN_PLACE, {"measures__pages": None}),
    Edit("measure changed", IN_PLACE, {"measures__pages": "count(distinct page)"}),
    Edit("key groups changed", MIGRATE, {"key_groups": 8}),
    Edit("trigger changed", IN_PLACE, {"trigger_interval": "5 seconds"}),
    Edit("source re-pointed", INCOMPATIBLE, {"source__path": "elsewhere"}),
    Edit("source of another type", INCOMPATIBLE, {"source": OTHER_SOURCE}, "source.format"),
    Edit("source option changed", IN_PLACE, {"source__options__lineSep": "|"}),
    Edit("source column added", IN_PLACE, {"source__columns": f"{COLUMNS}, country string"}),
    Edit("source column retyped", IN_PLACE, WIDER_SOURCE),
    Edit("source columns reordered or rewritten", NONE, {"source__columns": COLUMNS.replace("bigint", "LONG")}),
    Edit("sink moved", IN_PLACE, {"sink__path": "lake"}),
    Edit("tables named", IN_PLACE, {"sink__table": "web.sessions"}),
    Edit("sink changed", IN_PLACE, {"sink__keep_events": False}),
    Edit("unknown setting", UNKNOWN, name="rules.merge_by", document={"rules": {**BEFORE["rules"], "merge_by": "x"}}),
]  # fmt: skip

ENGINE_EDITS = [
    Edit("release newer", IN_PLACE, name=RELEASE, versions={RELEASE: "0.10.0"}),
    Edit("release older", IN_PLACE, name=RELEASE, versions={RELEASE: "0.1.9"}),
    Edit("deciding code changed", IN_PLACE, name="code", side={"fingerprint": Fingerprint("beef", VERSIONS, SETTINGS)}),
    Edit("layout of the state changed", MIGRATE, name="state", side={"revision": "0003"}),
    Edit("layout of the state changed", INCOMPATIBLE, name="state", side={"checkpoint_format": 2}),
    Edit("Spark patch changed", IN_PLACE, name=SPARK, versions={SPARK: "4.2.1"}),
    Edit("Spark line changed", UNKNOWN, name=SPARK, versions={SPARK: "4.3.0"}),
    Edit("Spark line changed", UNKNOWN, name=SPARK, versions={SPARK: "5.2.0"}),
    Edit("Delta patch changed", IN_PLACE, name=DELTA, versions={DELTA: "4.4.1"}),
    Edit("Delta line changed", UNKNOWN, name=DELTA, versions={DELTA: "4.5.0"}),
    Edit("Python patch changed", IN_PLACE, name=PYTHON, versions={PYTHON: "3.11.9"}),
    Edit("Python line changed", IN_PLACE, name=PYTHON, versions={PYTHON: "3.12.0"}),
    Edit("Java patch changed", IN_PLACE, name=JAVA, versions={JAVA: "17.0.12"}),
    Edit("Java line changed", IN_PLACE, name=JAVA, versions={JAVA: "21.0.1"}),
    Edit("pyarrow line changed", IN_PLACE, name="pyarrow", versions={"pyarrow": "27.0.0"}),
    Edit("partitions changed", MIGRATE, name="partitions", side={
        "fingerprint": Fingerprint("c0de", VERSIONS, {**SETTINGS, PARTITIONS: "8"})}),
    Edit("pinned setting changed", NONE, name="setting spark.sql.streaming.stateStore.compression.codec", side={
        "fingerprint": Fingerprint("c0de", VERSIONS, {
            **SETTINGS, "spark.sql.streaming.stateStore.compression.codec": "zstd"})}),
]  # fmt: skip
EDITS = [*PAYLOAD_EDITS, *FIELD_EDITS, *ENGINE_EDITS]


def named(edit: Edit) -> str:
    return f"{edit.kind}, {edit.verdict}"


@pytest.mark.parametrize("edit", EDITS, ids=named)
def test_each_difference_has_its_verdict(edit: Edit) -> None:
    name = edit.name or next(iter(edit.changes)).replace("__", ".")
    found = {each.name: each for each in edit.found()}
    assert name in found, sorted(found)
    assert (found[name].kind, found[name].verdict) == (edit.kind, edit.verdict)
    assert found[name].must_be_accepted == (edit.verdict in {PARTIAL, UNKNOWN})
    assert edit.verdict is NONE or found[name].reason


def test_there_are_enough_edits_of_every_verdict() -> None:
    assert len(EDITS) >= 60
    assert {edit.verdict for edit in EDITS} == set(Verdict)


def test_one_edit_of_one_field_is_one_difference() -> None:
    """Nothing else is reported beside it, except what a declared migration is."""
    for edit in FIELD_EDITS:
        others = {each.name for each in edit.found()} - {"migrations"}
        if edit.kind not in CHANGES_OTHERS:
            assert len(others) == 1, (edit.kind, others)


def test_a_declared_type_of_the_source_decides_too() -> None:
    edit = Edit("", NONE, {**WIDER_SOURCE, **payload(timeout="timeout_s")})
    before = document(written(**payload(timeout="timeout_s")))
    found = judge_differences(side(before), side(document(written(**edit.changes))), OPEN)
    assert ("mapping.payload.timeout", "column widened") in {(each.name, each.kind) for each in found}


def test_the_gravest_comes_first() -> None:
    found = Edit("", NONE, {"rules__time_mode": "none", "mapping__key": "device", "owner": "web"}).found()
    assert [each.verdict for each in found][:2] == [INCOMPATIBLE, PARTIAL]
    assert found[-1].verdict is NONE


def test_nothing_changed_is_no_difference() -> None:
    assert Edit("", NONE).found() == ()


def test_a_setting_of_the_checkpoint_that_is_not_known_is_unknown() -> None:
    kept = side(BEFORE, settings={"spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "true"})
    (found,) = judge_differences(kept, side(BEFORE), OPEN)
    assert (found.kind, found.verdict) == ("unknown setting", UNKNOWN)


@pytest.mark.parametrize(
    ("sessions", "said"), [(1, "1 open session"), (1_200, "about 1,200 open"), (None, "not counted")]
)
def test_a_partial_difference_counts_the_sessions(sessions: int | None, said: str) -> None:
    (found,) = Edit("", PARTIAL, {"mapping__key": "device"}, state=OpenState(sessions)).found()
    assert said in found.reason


KAFKA = {
    "format": "kafka", "bootstrap_servers": "broker:9092", "topic": "clicks", "encoding": "text",
    "options": {"minPartitions": "2"}, "options_from_environment": {"kafka.sasl.jaas.config": "KAFKA_JAAS"},
}  # fmt: skip
SOURCES = [written()["source"], {"format": "delta", "path": "a"}, KAFKA, {"format": "socket", "host": "a", "port": 9}]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source["format"])
def test_every_field_of_a_spec_is_judged(source: dict[str, Any]) -> None:
    """A field that is added to the spec needs an entry here."""
    spec = document(written(source=source, sink__path="lake", rules__client_timeouts_table="lake/timeouts"))
    for name, value in list_decisions(spec).items():
        if not name.startswith("mapping.payload."):
            found = judge_field("clicks", Change(name, None, value), OPEN, MigrationEffects())
            assert found.verdict is not UNKNOWN, name
