"""The rules for the SQL of a spec, by its words alone: they refuse at least what the rules by its tree do."""

from __future__ import annotations

import pytest

from sessionizer.stream_spec.expression_words import (
    changing_word,
    forbidden_word,
    no_column_word,
    window_word,
    words_of,
)

NAMES = "lower concat coalesce reflect java_method timestamp_millis unix_timestamp cast max exists count lag"
OWN = frozenset(NAMES.split())
COLUMNS = ("u", "ts", "user")


@pytest.mark.parametrize(
    "sql",
    [
        "u", "`a b`.c", "lower(u) || 'it''s \\' (select 1)'", "cast(ts as decimal(10, 2)) in (1, 2.5e3, .5)",
        "system.builtin.lower(u)", "case when (u) = \"(select\" then r'\\' end", "exists(xs, x -> x.values > (1))",
        "v:a.b[0]::int", "user", "unix_timestamp(u)", "s.now", "s.`current_date`", "`user`",
        "not (u like any ('a%', 'b'))",
    ],
)  # fmt: skip
def test_an_expression_over_its_row_passes(sql: str) -> None:
    assert forbidden_word(sql, OWN) is None
    assert window_word(sql) is None
    assert changing_word(sql, COLUMNS) is None


REFUSED = {
    "u in (select 1)": "no subquery",
    "(SELECT max(value) from text.`/proc/self/environ`)": "no subquery",
    "(from t |> aggregate max(u))": "no subquery",
    "exists(table t)": "no subquery",
    "(values (1))": "no subquery",
    "java_method('java.lang.System', 'getenv', 'HOME')": "not java_method",
    "`reflect`('java.lang.System')": "not reflect",
    "builtin.Reflect ('java.lang.System')": "not reflect",
    "reflect/**/('java.lang.System')": "not '/*'",
    "reflect -- (\n('java.lang.System')": "not '--'",
    "identifier('reflect')('java.lang.System')": "not identifier",
    "nobodys(u)": "not nobodys",
    "spark_catalog.default.lower(u)": "not spark_catalog.default.lower",
    "lower(u)('x')": "not the result of a call",
    "concat(u, version())": "not version()",
    "builtin.version()": "not version()",
    "u; lower(u)": "not ';'",
    "'it": 'not "\'"',
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_reaches_beyond_its_row_is_refused(sql: str) -> None:
    assert REFUSED[sql] in (forbidden_word(sql, OWN) or "")


CHANGING = {
    "concat(u, uuid())": "not uuid()",
    "ts < current_timestamp": "a column: u, ts, user. None is called current_timestamp",
    "ts < Current_Timestamp ()": "not current_timestamp()",
    "user()": "not user()",
    "session_user": "None is called session_user",
    "`current_date`": "None is called current_date",
    "unix_timestamp()": "not unix_timestamp()",
    "ts < 'today'": "not 'today'",
    "timestamp ' Now '": "not ' Now '",
}


@pytest.mark.parametrize("sql", CHANGING)
def test_what_may_be_another_when_the_row_is_read_again_is_refused(sql: str) -> None:
    assert CHANGING[sql] in (changing_word(sql, COLUMNS) or "")


@pytest.mark.parametrize(
    "sql", ["user", "lower(User)", "`current_date`", "_metadata.file_path", "x -> _METADATA", "`_metadata`"]
)
def test_a_word_that_is_no_column_is_refused_with_the_columns(sql: str) -> None:
    assert "a column: u, ts." in (no_column_word(sql, ("u", "ts", "_raw")) or "")


@pytest.mark.parametrize("sql", ["user", "s.user", "user()", "'user'", "_metadata.x", "version", "u"])
def test_a_word_that_is_one_is_not(sql: str) -> None:
    assert no_column_word(sql, ("u", "User", "_metadata")) is None


def test_a_window_is_told_by_its_words() -> None:
    assert window_word("lag(u) OVER (partition by u order by ts)") == "over"
    assert window_word("lag(u) over w") == "over"
    assert window_word("over + lower(over)") is None


def test_words_know_where_they_stand() -> None:
    sql = "lower( `a``b`)='x'"
    assert [sql[word.start : word.end] for word in words_of(sql)] == ["lower", "(", "`a``b`", ")", "=", "'x'"]
