"""Spark's warnings of good runs are left out of a driver's log, and no failure is."""

from __future__ import annotations

import re

import pytest

from sessionizer.launch.local_jvm import LOGGING

KNOWN = re.compile(re.search(r"^appender\.stderr\.filter\.known\.regex = (.*)$", LOGGING.read_text(), re.MULTILINE)[1])  # type: ignore[index]


@pytest.mark.parametrize(
    "message",
    [
        "Could not validate number of records due to missing statistics.",
        (
            "Assume no metadata directory. Error while looking for metadata directory in the path: "
            "file:/h/streams/clicks/lineages/1/punctuations/001795644128093-5c329e2d.json."
        ),
        (
            "The directory file:/h/streams/clicks/lineages/1/punctuations/001795644128093-5c329e2d.json was not found. "
            "Was it deleted very recently?"
        ),
        "The read limit ReadMaxBytes(134217728) for DeltaSource[file:/h/src] is ignored when Trigger.Once is used.",
        "The read limit MaxRows: 5000000 for KafkaV2[Subscribe[clicks]] is ignored when Trigger.Once is used.",
        "Your hostname, h, resolves to a loopback address: 127.0.1.1; using 10.0.0.1 instead (on interface eth0)",
    ],
)
def test_what_nobody_can_act_on_is_left_out(message: str) -> None:
    assert KNOWN.fullmatch(message)


@pytest.mark.parametrize(
    "message",
    [
        "Query clicks [id = 1, runId = 2] terminated with error",
        "Python worker failed to connect back.",
        "Error running maintenance thread",
        "The directory file:/h/feed/1.json was not found. Was it deleted very recently?",
        "Lost task 0.0 in stage 3.0 (TID 3) (h executor driver): java.io.FileNotFoundException: /in/1.json",
        "The number of records in the added files does not match that of the removed files",
    ],
)
def test_what_tells_of_a_failure_is_not(message: str) -> None:
    assert not KNOWN.fullmatch(message)
