"""Samples of the shapes that users have, through Spark: the guessed spec is valid, and its first rows are shown."""

import gzip
import json
from datetime import UTC
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionizer.cli.init import first_lines
from sessionizer.spark.history.sample import SamplePreview, preview, sample_files
from sessionizer.spark.sinks.examine import examine
from sessionizer.stream_spec.document.stream import StreamSpec
from sessionizer.stream_spec.sample import Draft, Overrides, find_text_form, guess_mapping, guess_payload, spec_text
from sessionizer.stream_spec.spec_folder import load_stream

NESTED = [
    {"messageId": f"m{number}", "sentAt": 1767607200000 + 1000 * number, "context": {"user": {"id": user}}, "n": None}
    for number, user in enumerate(["u1", "u2", "u1", None])
]
HAPROXY = """client_ip,client_port,accept_date,status_code
10.0.1.2,33317,06/Feb/2025:12:14:14.655,200
10.0.1.2,33318,06/Feb/2025:12:14:15.655,404
10.0.1.3,33319,06/Feb/2025:13:14:15.655,200
"""
SPREADSHEET = """\ufeffZeitpunkt;Kunden-Nr;Filiale
24.12.2025 9:05;007;Mitte
24.12.2025 9:06;007;Mitte
24.12.2025 10:00;008;"Nord; Hafen"
"""


def drafted(spark: SparkSession, sample: Path, zone: str = "UTC") -> tuple[StreamSpec, SamplePreview]:
    """Guess a spec from the only file in a folder, check it as --deep does, and preview it."""
    (file,) = sample.iterdir()
    form = find_text_form(file.name, [] if file.suffix == ".parquet" else list(first_lines(file)))
    found, columns = sample_files(spark, [file], sample, form)
    guesses = guess_mapping(found, Overrides(zone=zone))
    kept = guess_payload(found, guesses)
    draft = Draft("visits", form.source(str(sample), f"*{file.suffix}"), columns, guesses, kept, "30 minutes")
    (spec_file := sample.parent / "visits.yaml").write_text(spec_text(draft))
    spec = load_stream(spec_file)
    examine(spark, spec, sample.parent)
    return spec, preview(spark, spec, sample.parent)


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    (folder := tmp_path / "in").mkdir()
    return folder


def test_nested_json_in_gzip(spark: SparkSession, sample: Path) -> None:
    with gzip.open(sample / "a.json.gz", "wt") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in NESTED)
    spec, shown = drafted(spark, sample)
    assert (spec.mapping.key, spec.mapping.event_time) == ("context.user.id", "timestamp_millis(sentAt)")
    assert [row.event_id for row in shown.events] == ["m0", "m1", "m2"]
    assert [(row.key, row.event_count) for row in shown.sessions or ()] == [("u1", 2), ("u2", 1)]
    assert [row.reason for row in shown.refused] == ["null_key"]


def test_a_log_of_haproxy_as_csv_by_the_clock_of_its_host(spark: SparkSession, sample: Path) -> None:
    (sample / "haproxy.csv").write_text(HAPROXY)
    spec, shown = drafted(spark, sample, "Europe/Berlin")
    assert spec.mapping.key == "client_ip"
    at = [f"{row.event_time.astimezone(UTC):%H:%M:%S}" for row in shown.events]
    assert at == ["11:14:14", "11:14:15", "12:14:15"]
    assert [(row.key, row.event_count) for row in shown.sessions or ()] == [("10.0.1.2", 2), ("10.0.1.3", 1)]
    (sample / "env").mkdir()
    for number in range(1_001):
        (sample / "env" / f"{number}.py").touch()
    assert len(preview(spark, spec, sample.parent).events) == 3, "other files of the folder do not count"


def test_a_spreadsheet_keeps_its_zeros(spark: SparkSession, sample: Path) -> None:
    (sample / "Kasse 2025.csv").write_text(SPREADSHEET, encoding="utf-8")
    spec, shown = drafted(spark, sample)
    assert spec.source.format == "files"
    assert spec.source.options == {"pathGlobFilter": "*.csv", "header": "true", "sep": ";"}
    assert [row.key for row in shown.events] == ["007", "007", "008"]
    assert [row.event_count for row in shown.sessions or ()] == [2, 1]


def test_parquet(spark: SparkSession, sample: Path) -> None:
    rows = spark.sql(
        "select 'u' || id % 2 user, timestamp_seconds(1767607200 + id) at, cast(id as int) id from range(4)"
    )
    rows.coalesce(1).write.parquet(str(sample.parent / "p"))
    (file,) = (sample.parent / "p").glob("*.parquet")
    file.rename(sample / file.name)
    spec, shown = drafted(spark, sample)
    assert (spec.mapping.key, spec.mapping.event_time, spec.mapping.event_id) == ("user", "at", "id")
    assert len(shown.events) == 4
