"""Guesses at a spec from samples of the shapes that users have."""

from pathlib import Path
from typing import Any

import pytest

from sessionizer.causes.table import remedy_for
from sessionizer.cli.init import find_sample, name_options
from sessionizer.errors import InvalidSpec
from sessionizer.stream_spec.decisions import check_sql
from sessionizer.stream_spec.sample import (
    Draft,
    Guesses,
    Overrides,
    SampleColumn,
    TextForm,
    find_text_form,
    guess_mapping,
    guess_payload,
    read_time,
    snake_case,
    spec_text,
)
from sessionizer.stream_spec.spec_folder import load_stream

NESTED = [
    ("context.user.id", "string", ["u1", "u2", "u1"]),
    ("context.ip", "string", ["10.0.0.1", "10.0.0.2", "10.0.0.1"]),
    ("timestamp", "string", ["2026-01-05T10:00:00.000Z", "2026-01-05T10:01:00.000Z", "2026-01-05T10:02:00+02:00"]),
    ("messageId", "string", ["a", "b", "c"]),
    ("event", "string", ["view", "view", "buy"]),
    ("receivedAt", "bigint", [1767607200123, 1767607260123, 1767607320123]),
]
HAPROXY = [
    ("client_ip", "string", ["10.0.1.2", "10.0.1.2", "10.0.1.3"]),
    ("client_port", "bigint", [33317, 33318, 33319]),
    ("accept_date", "string", ["06/Feb/2009:12:14:14.655", "06/Feb/2009:12:14:15.001", "06/Feb/2009:12:14:16.655"]),
    ("status_code", "bigint", [200, 200, 404]),
]
SPREADSHEET = [
    ("Zeitpunkt", "string", ["24.12.2025 9:05", "24.12.2025 18:30", "25.12.2025 10:00"]),
    ("Kunden-Nr", "string", ["007", "007", "012"]),
    ("Site", "string", ["de", "de", "fr"]),
]
EPOCH = [
    ("uid", "bigint", [7, 7, 8]),
    ("ts", "bigint", [1767607200, 1767607201, 1767607202]),
    ("n", "bigint", [1, 1, 1]),
]
DIGEST = "sha2(to_json(struct({})), 256)"


def columns(shape: list[tuple[str, str, list[Any]]]) -> list[SampleColumn]:
    return [SampleColumn(tuple(path.split(".")), kind, tuple(values)) for path, kind, values in shape]


def sql_of(found: Guesses) -> tuple[str | None, ...]:
    return found.key.sql, found.time.sql, found.event_id.sql, found.client.sql


@pytest.mark.parametrize(
    ("shape", "chosen", "expected"),
    [
        (NESTED, {}, ("context.user.id", "try_to_timestamp(timestamp)", "messageId", None)),
        (
            HAPROXY,
            {"zone": "Europe/Berlin"},
            (
                "client_ip",
                "to_utc_timestamp(try_to_timestamp(accept_date, 'dd/MMM/yyyy:HH:mm:ss.SSS'), 'Europe/Berlin')",
                DIGEST.format("client_ip, client_port, accept_date, status_code"),
                None,
            ),
        ),
        (
            SPREADSHEET,
            {},
            (
                "`Kunden-Nr`",
                "try_to_timestamp(Zeitpunkt, 'd.M.yyyy H:mm')",
                DIGEST.format("Zeitpunkt, `Kunden-Nr`, Site"),
                "Site",
            ),
        ),
        (EPOCH, {}, ("uid", "timestamp_seconds(ts)", DIGEST.format("uid, ts, n"), None)),
        (
            NESTED,
            {"key": "context.ip", "time": "receivedAt", "event_id": "concat(messageId, event)", "client": "event"},
            ("context.ip", "timestamp_millis(receivedAt)", "concat(messageId, event)", "event"),
        ),
    ],
)
def test_a_mapping_is_guessed(
    shape: list[tuple[str, str, list[Any]]], chosen: dict[str, str], expected: tuple[str | None, ...], tmp_path: Path
) -> None:
    found = guess_mapping(columns(shape), Overrides(**chosen))
    assert sql_of(found) == expected
    declared = ["context struct<user: struct<id: string>, ip: string>"] if shape is NESTED else []
    names = ["`Kunden-Nr`" if path == "Kunden-Nr" else path for path, *_ in shape if "." not in path]
    declared += [f"{name} string" for name in names]
    form = TextForm("csv", ";", has_header=True)
    kept = guess_payload(columns(shape), found)
    file = tmp_path / "visits.yaml"
    file.write_text(spec_text(Draft("visits", form.source("/data/in", "*.csv"), declared, found, kept, "20 minutes")))
    spec = load_stream(file)
    check_sql(spec)
    assert (spec.mapping.key, spec.mapping.event_time, spec.mapping.event_id, spec.mapping.client) == expected
    assert spec.mapping.payload == kept
    assert spec.rules.gap_timeout_ms == 20 * 60_000


@pytest.mark.parametrize(
    ("kind", "values", "zone", "expected"),
    [
        ("bigint", [1767607200], "UTC", "timestamp_seconds(at)"),
        ("bigint", [1767607200123], "UTC", "timestamp_millis(at)"),
        ("bigint", [1767607200123456], "UTC", "timestamp_micros(at)"),
        ("bigint", [1767607200123456789], "UTC", "timestamp_micros(at div 1000)"),
        ("double", [1767607200.25], "UTC", "timestamp_seconds(at)"),
        ("string", ["1767607200"], "UTC", "timestamp_seconds(try_cast(at as bigint))"),
        ("string", ["1767607200.5"], "UTC", "timestamp_seconds(try_cast(at as double))"),
        ("string", ["1767607200123"], "Asia/Tokyo", "timestamp_millis(try_cast(at as bigint))"),
        ("string", ["1767607200123456"], "UTC", "timestamp_micros(try_cast(at as bigint))"),
        ("timestamp", ["2026-01-05 10:00:00"], "Asia/Tokyo", "at"),
        ("timestamp_ntz", ["2026-01-05 10:00:00"], "Asia/Tokyo", "to_utc_timestamp(at, 'Asia/Tokyo')"),
        ("string", ["2026-01-05T10:00:00Z"], "Asia/Tokyo", "try_to_timestamp(at)"),
        ("string", ["2026-01-05 10:00:00"], "UTC", "try_to_timestamp(at)"),
        ("string", ["2026-01-05 10:00:00"], "Asia/Tokyo", "to_utc_timestamp(try_to_timestamp(at), 'Asia/Tokyo')"),
        ("string", ["05/Jan/2026:10:00:00 +0100"], "UTC", "try_to_timestamp(at, 'dd/MMM/yyyy:HH:mm:ss xx')"),
        ("string", ["1/13/2026 9:05"], "UTC", "try_to_timestamp(at, 'M/d/yyyy H:mm')"),
        ("string", ["13/1/2026 9:05", "1/2/2026 9:05"], "UTC", "try_to_timestamp(at, 'd/M/yyyy H:mm')"),
        ("bigint", [200, 404], "UTC", None),
        ("string", ["10:00"], "UTC", None),
        ("string", ["2026-01-05T10:00:00Z", "soon"], "UTC", None),
        ("string", ["24.12.2025 9:05"] * 9 + ["soon"], "UTC", "try_to_timestamp(at, 'd.M.yyyy H:mm')"),
        ("string", ["1767607200"] * 9 + ["soon"], "UTC", "timestamp_seconds(try_cast(at as bigint))"),
        ("bigint", [1767607200123] * 9 + [0], "UTC", "timestamp_millis(at)"),
        ("string", [None, ""], "UTC", None),
    ],
)
def test_a_time_is_known_by_its_values(kind: str, values: list[Any], zone: str, expected: str | None) -> None:
    found = read_time(SampleColumn(("at",), kind, tuple(values)), zone)
    assert (None if found is None else found[0]) == expected


@pytest.mark.parametrize(
    ("option", "shape"), [("--time", [("user", "string", ["a", "a", "b"])]), ("--key", EPOCH[1:2])]
)
def test_a_sample_without_key_or_time_names_the_option(option: str, shape: list[tuple[str, str, list[Any]]]) -> None:
    with pytest.raises(InvalidSpec) as found:
        guess_mapping(columns(shape), Overrides())
    assert found.value.field == option


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("a.json.gz", ['{"a": 1}'], TextForm("json")),
        ("a.log", ['{"a": 1}'], TextForm("json")),
        ("a.csv", ["user,at", "u1,1767607200"], TextForm("csv", ",", has_header=True)),
        ("a.csv", ["Kunden-Nr;Zeitpunkt", "7;24.12.2025 9:05"], TextForm("csv", ";", has_header=True)),
        ("a.csv", ["10.0.0.1,06/Feb/2009:12:14:14.655", "10.0.0.2,06/Feb/2009:12:14:15"], TextForm("csv")),
        ("a.tsv", ["user\tat", "u1\t3"], TextForm("csv", "\t", has_header=True)),
        ("part-0.parquet", [], TextForm("parquet")),
        ("a.csv", [",user,at", "0,u1,1767607200"], None),
        ("a.json", ["["], None),
        ("a.log", ["one line of text"], None),
        ("a.csv", [], None),
    ],
)
def test_the_form_of_a_file(name: str, lines: list[str], expected: TextForm | None) -> None:
    if expected is None:
        with pytest.raises(InvalidSpec):
            find_text_form(name, lines)
    else:
        assert find_text_form(name, lines) == expected


def test_a_folder_is_known_by_its_files(tmp_path: Path) -> None:
    for name in ("dags/a.yaml", "d=1/1.json.gz", "d=1/2.json.gz", "c.csv", "_e.csv", "f/g.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert find_sample(tmp_path) == ([tmp_path / "d=1" / "1.json.gz", tmp_path / "d=1" / "2.json.gz"], "*.json.gz")
    assert find_sample(tmp_path / "c.csv") == ([tmp_path / "c.csv"], "*.csv")
    with pytest.raises(InvalidSpec):
        find_sample(tmp_path / "dags")


def test_names_become_words() -> None:
    assert [snake_case(each) for each in ("userId", "HTTPStatus", "Kunden-Nr", "event_2")] == [
        "user_id", "http_status", "kunden_nr", "event_2",
    ]  # fmt: skip


def test_a_wrong_choice_names_its_option() -> None:
    others = [InvalidSpec("mapping.client", "sit", "a column"), InvalidSpec("mapping.event_id", "i", "an id")]
    with pytest.raises(InvalidSpec) as refused, name_options(Overrides(key="usr", client="sit")):
        raise InvalidSpec("mapping.key", "usr", "a column of the source: user", others=others)
    assert (refused.value.field, refused.value.value) == ("--key", "usr")
    assert "--key" in remedy_for(refused.value)
    assert [each.field for each in refused.value.others] == ["--client", "mapping.event_id"]


def test_a_wrong_guess_names_its_field() -> None:
    with pytest.raises(InvalidSpec, match=r"^mapping.key"), name_options(Overrides(time="at")):
        raise InvalidSpec("mapping.key", "usr", "a column of the source")
