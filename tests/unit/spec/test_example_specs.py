"""Each example stream passes `spec check`, and lies beside its rows and what they become."""

import json

import pytest
from typer.testing import CliRunner

from sessionizer.cli.app import app
from support.streams.spec_folder import EXAMPLES, NAMES, expected_file, values_of

LEAST = {"segment", "snowplow", "ga4", "combined_log", "cloudevents", "avro_clicks", "protobuf_clicks"}


def test_the_examples_are_those_that_the_page_of_sources_tells_of() -> None:
    assert set(NAMES) >= LEAST


@pytest.mark.parametrize("name", NAMES)
def test_an_example_passes_the_check_of_specs(name: str) -> None:
    done = CliRunner().invoke(app, ["spec", "check", name, "--streams", str(EXAMPLES)])
    assert (done.exit_code, done.output.split()[:2]) == (0, ["ok", name]), done.output


@pytest.mark.parametrize("name", NAMES)
def test_each_row_of_an_example_becomes_an_event_or_is_refused(name: str) -> None:
    expected = json.loads(expected_file(name).read_text(encoding="utf-8"))
    assert len(expected["events"]) + len(expected["refused"]) == len(values_of(name))
    assert expected["sessions"]
    assert expected["refused"]
