"""The guard of the SQL in specs: a table of verdicts, and sequences of words that must not deceive it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec import sql_words
from sessionizer.stream_spec.decisions import check_sql, source_columns
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.sql_guard import Scope, refuse_sql
from sessionizer.stream_spec.sql_words import WordKind, words_of
from support.expected.sql_corpus import ACCEPTED, COLUMNS, MEASURES, REFUSED, REFUSED_MEASURES

ROW, MEASURE, UNKNOWN = Scope({**COLUMNS, "a1": "string"}), Scope(COLUMNS, measure=True), Scope()


@pytest.mark.parametrize("sql", ACCEPTED)
def test_an_expression_over_its_row_passes(sql: str) -> None:
    assert refuse_sql(sql, ROW) is None
    assert refuse_sql(sql, UNKNOWN) is None


@pytest.mark.parametrize("sql", MEASURES)
def test_an_aggregate_of_events_passes(sql: str) -> None:
    assert refuse_sql(sql, MEASURE) is None
    assert "not the aggregate" in (refuse_sql(sql, ROW) or "")


@pytest.mark.parametrize("sql", REFUSED)
def test_what_reaches_beyond_its_row_or_changes_is_refused(sql: str) -> None:
    assert REFUSED[sql] in (refuse_sql(sql, ROW) or "")


@pytest.mark.parametrize("sql", REFUSED_MEASURES)
def test_what_is_no_measure_is_refused(sql: str) -> None:
    assert REFUSED_MEASURES[sql] in (refuse_sql(sql, MEASURE) or "")


@pytest.mark.parametrize("sql", [sql for sql, reason in REFUSED.items() if "None is called" not in reason])
def test_a_table_of_unknown_columns_permits_nothing_but_names(sql: str) -> None:
    if not any(column in sql for column in ("at <", "day =", "s.at", "coalesce(at")):
        assert refuse_sql(sql, UNKNOWN) is not None


def test_a_refused_name_is_told_with_the_columns_of_the_source() -> None:
    assert refuse_sql("user", Scope({"u": "", "ts": "", "_raw": ""})) == (
        "a column: u, ts. None is called user, so Spark takes it for user()"
    )


@given(st.lists(st.sampled_from([*"()[].,:'\"`\\-/*${};?xrR1 \n", "select", "u", "''", "\\'", "é"]), max_size=12))
def test_words_are_the_whole_text(parts: list[str]) -> None:
    sql = "".join(parts)
    words = words_of(sql)
    assert [sql[word.start : word.end] for word in words] == [word.written for word in words]
    assert "".join(word.written for word in words) + "".join(char for char in _left(sql) if char not in " \t\r\n") == (
        "".join(word.written for word in words)
    )


def _left(sql: str) -> str:
    """The text that is in no word."""
    taken = {at for word in words_of(sql) for at in range(word.start, word.end)}
    return "".join(char for at, char in enumerate(sql) if at not in taken)


def test_no_function_is_on_two_lists() -> None:
    kept = {name: value for name, value in vars(sql_words).items() if name.isupper() and name[0] != "_"}
    lists = [value for value in kept.values() if isinstance(value, frozenset | dict)]
    names = [name for listed in lists if listed is not sql_words.CLOCK_WITHOUT_ARGUMENTS for name in listed]
    assert len(names) == len(set(names)) > 500


def test_a_text_has_the_value_that_spark_gives_it() -> None:
    written = {r"'a\'b'": "a'b", r"'\u0041\x\n'": "Ax\n", r"'\101'": "A", r"r'\n'": r"\n", r"'\U00000041'": "A"}
    assert {word.written: word.value for text in written for word in words_of(text)} == written


SPEC: dict[str, Any] = {
    "name": "visits",
    "source": {"format": "files", "path": "in", "encoding": "json", "columns": "u string, ts bigint, s struct<a: int>"},
    "mapping": {"key": "u", "event_time": "timestamp_millis(ts)", "event_id": "s.a", "payload": {"page": "u"}},
}


def spec(**changes: object) -> StreamSpec:
    return StreamSpec.model_validate({**SPEC, **changes})


def test_all_sql_of_a_spec_is_checked_by_its_fields() -> None:
    mapping = {**SPEC["mapping"], "key": "user", "closes": "reflect('a')", "payload": {"page": "pages", "n": "uuid()"}}
    migrations = [{"id": "one", "key": "java_method('a')", "columns": {"page": "unknown", "n": "(select 1)"}}]
    with pytest.raises(InvalidSpec) as caught:
        check_sql(spec(mapping=mapping, migrations=migrations, measures={"hits": "count(u)", "pages": "max(page)"}))
    assert [caught.value.field, *(other.field for other in caught.value.others)] == [
        "mapping.key", "mapping.closes", "mapping.payload.page", "mapping.payload.n", "measures.hits",
        "migrations.one.key", "migrations.one.columns.n",
    ]  # fmt: skip
    check_sql(spec())


@pytest.mark.parametrize(
    ("ddl", "columns"),
    [
        ("u string, ts bigint not null comment 'a, b'", ["u", "ts"]),
        ("s struct<a: int, b: map<string, int>>, d decimal(10, 2), `A b` date", ["s", "d", "a b"]),
        ("u string -- x", None), ("u <", ["u"]), ("u >", None), (", u string", None),
    ],
)  # fmt: skip
def test_the_columns_of_a_source_are_those_of_its_ddl(ddl: str, columns: list[str] | None) -> None:
    found = source_columns(spec(source={**SPEC["source"], "columns": ddl}).source)
    assert (None if found is None else [name for name in found if name[0] != "_"]) == columns


def test_the_columns_of_a_table_are_not_known_and_those_of_kafka_are() -> None:
    assert source_columns(spec(source={"format": "delta", "path": "t"}).source) is None
    kafka = {"format": "kafka", "bootstrap_servers": "h:1", "topic": "t", "encoding": "text"}
    assert {"value", "kafka"} < set(source_columns(spec(source=kafka).source) or ())
    assert [word.kind for word in words_of("a\x00")] == [WordKind.NAME, WordKind.UNKNOWN]
