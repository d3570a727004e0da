"""Output of ``sessionizer tables``: places and versions."""

import json

import pytest

from support.processes.fabricated_platform import SPEC, Platform


def test_what_is_not_there_yet(platform: Platform) -> None:
    platform.add("visits")
    result = platform.call("tables", "visits")
    assert result.exit_code == 0
    assert result.stdout.count("not there yet") == 5


def test_a_query_that_cannot_run_here_says_what_to_install(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.add("visits", SPEC.format(name="visits") + "sink:\n  path: s3a://lake/visits\n")
    monkeypatch.setattr("sessionizer.cli.installation.find_spec", lambda name: None if name == "polars" else name)
    shown = platform.call("tables", "visits").stdout
    assert shown.count("polars`") == 5
    assert shown.count("duckdb.sql") == 5


def test_tables_elsewhere(platform: Platform) -> None:
    platform.add("visits", SPEC.format(name="visits") + "sink:\n  path: s3a://lake/visits\n")
    result = json.loads(platform.call("tables", "visits", "--json").stdout)
    assert result["tables"][0]["path"] == "s3a://lake/visits/sessions"
    assert result["tables"][0]["version"] is None


def test_tables_with_names_in_a_catalog(platform: Platform) -> None:
    platform.add("visits", SPEC.format(name="visits") + "sink:\n  table: lake.web.sessions\n")
    result = json.loads(platform.call("tables", "visits", "--json").stdout)
    assert {table["name"]: table["catalog_name"] for table in result["tables"]} == {
        "sessions": "lake.web.sessions",
        "quarantine": "lake.web.sessions_quarantine",
        "late_events": "lake.web.sessions_late_events",
        "sessions_daily": "lake.web.sessions_daily",
        "stream_history": "lake.web.sessions_history",
    }
