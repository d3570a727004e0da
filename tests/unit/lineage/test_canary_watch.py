"""A driver's way through the canary of its lineage: its notes, its end, what a person may say to it."""

from dataclasses import replace
from pathlib import Path

import pytest

from sessionizer.causes.table import remedy_for
from sessionizer.control.maintenance import record_failure
from sessionizer.control.records.process_records import ExitOutcome, ExitRecord, write_exit
from sessionizer.core.key_group.group_load import OpenInGroup
from sessionizer.errors import DamagedFile, LineageLeft, LineageUnfit, QueryFailed, QueryInterrupted
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import activate_lineage, make_lineage, start_lineage
from sessionizer.lineage.batch_log import KEPT, BatchFacts, BatchFigures, BatchLog, OpenSessions
from sessionizer.lineage.canary import canary_record
from sessionizer.lineage.canary.canary_record import (
    CANARY_FILE,
    CanaryRecord,
    CanaryWatch,
    begin_canary,
    canary_of_active,
    promote_lineage,
    read_canary,
    standing_line,
    write_canary,
)
from sessionizer.lineage.canary.judge import CanaryOutcome, CanaryTerms
from sessionizer.lineage.kept_spec import TYPES_FILE, KeptTypes, LineageSpec
from sessionizer.state.lineages.origin import ORIGIN_FILE, Origin, find_abandoned_lineages
from support.fixtures.reviewed import Reviewed
from support.places import known

USUAL = BatchFacts(
    batch_id=0, read=200, admitted=200, late=0, quarantined=0, sessions=20, open_before=5, open_after=5, held_bytes=9
)


def bring(home: StreamHome, lineage: str, batches: int = 5, quarantined: int = 0) -> BatchFigures:
    log = BatchLog(home.lineage(lineage).batches)
    for number in range(batches):
        log.add(replace(USUAL, batch_id=number, admitted=200 - quarantined, quarantined=quarantined))
    return log.life


@pytest.fixture
def home(tmp_path: Path) -> StreamHome:
    """A stream whose first lineage did as usual, and whose second, of a rescale, is a canary."""
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    first = start_lineage(home, spec=LineageSpec({}))
    TYPES_FILE.of(home, first).write(KeptTypes("event_time"))
    bring(home, first)
    on_canary(home, first, CanaryTerms())
    return home


def on_canary(home: StreamHome, before: str, terms: CanaryTerms) -> str:
    lineage = make_lineage(home, LineageSpec({}))
    ORIGIN_FILE.of(home, lineage).write(Origin("rescale", 7, before, 4))
    begin_canary(home, lineage, "rescale", before, terms)
    activate_lineage(home, lineage, before)
    return lineage


def active(home: StreamHome) -> str:
    canary = known(canary_of_active(home))
    return canary.lineage


def begun(home: StreamHome, uid: str) -> CanaryWatch:
    return known(CanaryWatch.begun_by(home, uid))


def test_it_passes_once_and_is_over(home: StreamHome, reviewed: Reviewed) -> None:
    watch = begun(home, "a")
    lineage = watch.canary.lineage
    assert watch.canary.baseline.life.read == 1_000
    watch.judge(bring(home, lineage, 4))
    assert watch.canary.outcome is None
    figures = bring(home, lineage, 5)
    reviewed(watch.line(figures))
    watch.judge(figures)
    noted = read_canary(home, lineage)
    assert noted == watch.canary
    assert noted is not None
    assert noted.outcome is CanaryOutcome.PASSED
    assert noted.owner.startswith("clicks@")
    watch.judge(bring(home, lineage, quarantined=200))
    assert read_canary(home, lineage) == noted, "what comes later is no canary"
    assert CanaryWatch.begun_by(home, "b") is None


def test_one_that_fails_ends_every_driver_until_a_person_decides(home: StreamHome, reviewed: Reviewed) -> None:
    watch = begun(home, "a")
    lineage, before = watch.canary.lineage, watch.canary.before
    with pytest.raises(LineageUnfit, match=f"lineage {lineage} .*: 50% of the 1,000 rows"):
        watch.judge(bring(home, lineage, quarantined=100))
    with pytest.raises(LineageUnfit) as raised:
        CanaryWatch.begun_by(home, "b")
    advice = remedy_for(raised.value)
    assert str(before) in advice
    assert all(command in advice for command in ("`sessionizer rollback clicks`", "`sessionizer promote clicks`"))
    assert find_abandoned_lineages(home) == []
    reviewed(promote_lineage(home, "ann"))
    assert CanaryWatch.begun_by(home, "b") is None
    assert "needs no promotion" in promote_lineage(home, "ann")
    noted = known(read_canary(home, lineage))
    reviewed(standing_line(noted, BatchFigures()))


def test_who_approved_that_goes_back_without_being_asked(home: StreamHome) -> None:
    lineage = on_canary(home, active(home), CanaryTerms(goes_back=True))
    watch = begun(home, "a")
    with pytest.raises(LineageLeft) as raised:
        watch.judge(bring(home, lineage, quarantined=100))
    assert raised.value.before == watch.canary.before
    noted = known(read_canary(home, lineage))
    assert noted.goes_back


def test_a_driver_that_dies_again_and_again_fails_it(home: StreamHome, reviewed: Reviewed) -> None:
    lineage = begun(home, "killed").canary.lineage
    write_exit(home, ExitRecord("stopped", 1, ExitOutcome.STOPPED))
    begun(home, "stopped")
    record_failure(home, "away", QueryInterrupted("clicks", "unreachable", "the broker is away"))
    begun(home, "away")
    record_failure(home, "dead", QueryInterrupted("clicks", "driver_jvm_died", "its last words"))
    noted = begun(home, "dead").canary
    assert noted.drivers == "killed dead", "the ends of others say nothing of the lineage"
    last = begun(home, "last")
    assert last.canary.drivers == "killed dead last"
    ended = last.translate_error(QueryInterrupted("clicks", "memory", "no heap"))
    assert isinstance(ended, LineageUnfit)
    reviewed(ended.reason)
    assert lineage == ended.lineage


def test_what_would_end_its_query_again_fails_it_at_once(home: StreamHome, reviewed: Reviewed) -> None:
    watch = begun(home, "a")
    away = QueryInterrupted("clicks", "unreachable", "the broker is away")
    assert watch.translate_error(away) is away
    ended = watch.translate_error(QueryFailed("clicks", "state_refused", "another provider"))
    assert isinstance(ended, LineageUnfit)
    reviewed(ended.reason)


@pytest.mark.parametrize("cause", ["source_data_loss", "source_rewritten"])
def test_what_the_lineage_before_would_meet_as_well_does_not_fail_it(home: StreamHome, cause: str) -> None:
    """A rollback would not help, and the driver's own error names what does."""
    watch = begun(home, "d0")
    lost = QueryFailed("clicks", cause, "offsets 311 to 473 are gone")
    assert watch.translate_error(lost) is lost
    record_failure(home, "d0", lost)
    assert begun(home, "d1").canary.outcome is None


def test_who_accepts_while_a_driver_runs_has_the_last_word(home: StreamHome) -> None:
    watch = begun(home, "a")
    promote_lineage(home, "ann")
    watch.judge(bring(home, watch.canary.lineage, quarantined=200))
    assert watch.canary.outcome is CanaryOutcome.PROMOTED


def test_a_promotion_between_the_look_and_the_verdict_of_a_driver_holds(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def promote_first(where: StreamHome, canary: CanaryRecord) -> None:
        promote_lineage(where, "ann")
        write_canary(where, canary)

    watch = begun(home, "a")
    monkeypatch.setattr(canary_record, "write_canary", promote_first)
    watch.judge(bring(home, watch.canary.lineage, quarantined=200))
    kept = known(read_canary(home, watch.canary.lineage))
    assert kept == watch.canary
    assert (kept.outcome, kept.by, kept.goes_back) == (CanaryOutcome.PROMOTED, "ann", False)
    assert CanaryWatch.begun_by(home, "b") is None, "the next driver goes on"


def test_a_promotion_is_of_one_canary_of_a_lineage(home: StreamHome) -> None:
    """An apply in place may begin another one."""
    promote_lineage(home, "ann")
    lineage = active(home)
    canary = known(read_canary(home, lineage))
    write_canary(home, replace(canary, begun_at=canary.begun_at + 1, outcome=None))
    assert begun(home, "a").canary.outcome is None


def test_a_stream_that_no_verb_moved_is_on_no_canary(tmp_path: Path) -> None:
    home = StreamHome.of(tmp_path, "clicks")
    home.prepare()
    assert CanaryWatch.begun_by(home, "a") is None
    start_lineage(home, spec=LineageSpec({}))
    assert CanaryWatch.begun_by(home, "a") is None
    assert "needs no promotion" in promote_lineage(home, "ann")


def test_a_damaged_canary_is_not_guessed_at(home: StreamHome, reviewed: Reviewed) -> None:
    CANARY_FILE.of(home, active(home)).path.write_text('{"format": 1, "terms": {}}')
    with pytest.raises(DamagedFile) as raised:
        CanaryWatch.begun_by(home, "a")
    reviewed(raised.value)


def test_a_batch_that_runs_again_counts_once_and_old_ones_are_summed_up(tmp_path: Path) -> None:
    log = BatchLog(tmp_path / "batches.json")
    for number in range(KEPT + 7):
        log.add(replace(USUAL, batch_id=number, lag_ms=number))
    log.add(replace(USUAL, batch_id=KEPT + 6, read=300, lag_ms=1))
    log = BatchLog(tmp_path / "batches.json")
    assert (log.life.batches, log.recent.batches) == (KEPT + 7, KEPT)
    assert log.life.read == 200 * (KEPT + 6) + 300
    assert (log.life.first_lag_ms, log.life.last_lag_ms, log.life.most_lag_ms) == (0, 1, KEPT + 5)


def test_figures_that_cannot_be_read_keep_no_stream_from_going_on(tmp_path: Path) -> None:
    file = tmp_path / "batches.json"
    for text in ("{", '{"earlier": 7}', '{"batches": [{"batch_id": "x"}]}', '{"batches": 3}'):
        file.write_text(text)
        log = BatchLog(file)
        assert log.life == BatchFigures()
        log.add(USUAL)
        assert BatchLog(file).life.read == USUAL.read


def test_no_more_sessions_are_open_than_events_came_since_a_group_merged(tmp_path: Path) -> None:
    opened = OpenSessions(tmp_path / "open_sessions.json")
    opened.learn(1, [(0, OpenInGroup(3, 9, 300, 30, merged=True)), (1, OpenInGroup(1, 9, 100, 10, merged=False))])
    for _ in range(2):  # the batch runs again
        opened.learn(2, [(1, OpenInGroup(2, 9, 100, 20, merged=False))])
    opened = OpenSessions(tmp_path / "open_sessions.json")
    assert (opened.total, opened.most, opened.held_bytes) == (6, 36, 500)
    opened.learn(3, [(1, OpenInGroup(4, 9, 100, 20, merged=True))])
    assert (opened.total, opened.most) == (7, 7)
