"""What a seed would do, as data."""

from collections.abc import Callable
from dataclasses import replace

from sessionizer.state.commands.seeds import (
    BEGINNING,
    NOW,
    SOURCE,
    HistoryFigures,
    HistoryPlace,
    SeedPlan,
)

DECISION = SeedPlan("clicks", "5bec", HistoryPlace("delta", "/lake/clicks", "version 7"), None, BEGINNING, True, None)
FIGURES = HistoryFigures(
    watermark_ms=1_750_000_000_123,
    events=1_000,
    refused={"null_key": 2, "malformed": 3},
    later=70,
    sessions=200,
    open_sessions=40,
    open_events=100,
    repeated=6,
    conflicting=1,
)


def test_the_digest_is_of_what_is_decided() -> None:
    others = [
        replace(DECISION, stream="views"),
        replace(DECISION, spec="5bed"),
        replace(DECISION, past=replace(DECISION.past, version="version 8")),
        replace(DECISION, until_ms=7),
        replace(DECISION, live_from=NOW),
        replace(DECISION, backfill=False),
        replace(DECISION, leaves="20261121T105501-3fa9c2"),
    ]
    assert len({DECISION.digest, *(other.digest for other in others)}) == 1 + len(others)
    plan = replace(DECISION, figures=FIGURES)
    assert plan.to_json()["digest"] == replace(plan, figures=replace(FIGURES, events=1)).to_json()["digest"]


def test_who_brings_what_is_later_than_the_moment() -> None:
    kept = {live: replace(DECISION, live_from=live).keeps_later for live in (BEGINNING, NOW, SOURCE, '{"clicks":{}}')}
    assert kept == {BEGINNING: False, NOW: True, SOURCE: True, '{"clicks":{}}': True}


def test_people_are_told_what_would_be_done(golden: Callable[[str, str], None]) -> None:
    over = replace(DECISION, past=HistoryPlace(SOURCE, "kafka"), live_from=SOURCE, backfill=False, leaves="old")
    quiet = replace(FIGURES, refused={}, later=0, repeated=0, conflicting=0)
    plans = {
        "first": replace(DECISION, figures=FIGURES),
        "over": replace(over, figures=quiet, leaving={"sessions": 12, "late_events": 0}),
    }
    all_back = replace(over, backfill=True, figures=FIGURES, leaving={"sessions": 200})
    assert not any("fewer" in line for line in all_back.lines())
    golden("plans/seed.txt", "\n".join("\n".join((f"# {name}", *plan.lines(), "")) for name, plan in plans.items()))


def test_an_error_about_a_history_shows_what_was_typed() -> None:
    assert HistoryPlace(SOURCE, "files").typed == SOURCE
    assert HistoryPlace("delta", "/lake/clicks", "version 7").typed == "/lake/clicks"
