"""Each action of the Streams page, clicked in the tab of a running Airflow over a stream that Spark really drives.

Each is asked for on the page, its outcome is seen in the records of the stream and on the page again. At the end the
tables are what the definition makes of the batches on the path of the active lineage.
"""

from collections.abc import Iterator

import pytest

from sessionizer.control.history.files import Mark, read_marks
from sessionizer.control.records.operation_record import Ending, read_operations
from sessionizer.control.records.supervision_records import DesiredState, read_desired
from sessionizer.home.clock import epoch_ms
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.canary.canary_record import read_canary
from sessionizer.lineage.canary.judge import CanaryOutcome
from sessionizer.lineage.kept_spec import SPEC_FILE
from sessionizer.state.savepoints.listing import list_savepoints
from sessionizer_demo.local_airflow.api import wait_until
from support.pages.page_user import CLICKS, PAGE_SETTINGS, PAGE_SPEC, PageUser, page_user
from support.places import known
from support.processes.live_airflow import Platform

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_500)]

SPEC, SETTINGS = PAGE_SPEC, PAGE_SETTINGS
FILES, FIRST = 9, 3
MEASURED = {**CLICKS, "measures": {"pages": "count(distinct page)"}}
PAYLOAD = {**CLICKS["mapping"]["payload"], "agent": "device"}
WITH_COLUMN = {**MEASURED, "mapping": {**CLICKS["mapping"], "payload": PAYLOAD}}
ACTIONS = "[...e.querySelectorAll('button')].map((each) => [each.textContent, each.disabled, each.title])"
RUN = "/api/v2/dags/{dag}/dagRuns"
FORGED = """(async () => {
  const body = JSON.stringify({logical_date: null, conf: {verb: 'rollback', stream: 'clicks'}});
  const send = (type, mode) => fetch('%s', {method: 'POST', credentials: 'include', mode, body, headers: {'Content-Type': type}});
  return Promise.all([send('application/json', 'cors'), send('text/plain', 'no-cors')].map((sent) => sent.then(() => 'sent', () => 'refused')));
})()"""  # noqa: E501
TABS = {"dag": "", "run": "/runs/{run}", "task": "/runs/{run}/tasks/supervise"}
SIZES = ((375, 800), (768, 800), (1280, 900), (2560, 1400))
LEAST_HEIGHT = 480
"""Of a tab, in CSS pixels. Where Airflow leaves it less, Airflow's panel around it scrolls."""


@pytest.fixture(scope="module")
def user(platform: Platform) -> Iterator[PageUser]:
    with page_user(platform, FILES, FIRST) as found:
        yield found


def test_a_viewer_sees_the_stream_and_may_do_nothing(user: PageUser) -> None:
    user.log_in("vic")
    user.open_tab()
    user.browser.wait_for_text("Sessions closed")
    (buttons,) = user.browser.says(".actions", ACTIONS)
    assert [(label, disabled) for label, disabled, _ in buttons] == [(label, True) for label, _, _ in buttons]
    assert all(title for _, _, title in buttons), "each says why"
    user.see("viewer")
    assert user.browser.ask(as_page("POST", RUN.format(dag="clicks.stop"), "{logical_date: null}")) == 403


def test_an_operator_may_plan_and_not_approve(user: PageUser) -> None:
    user.log_in("olga")
    user.open_tab()
    user.save_by_click("before all")
    user.act("Restore …", why="olga asks")
    user.browser.wait_for_text("approve: waits for another user", 300)
    assert user.browser.says(".plan .buttons") == []
    user.see("operator")
    run = str(user.newest_run["dag_run_id"])
    user.wait_until_noted(run)
    answer = "{chosen_options: ['Approve'], params_input: {}}"
    assert user.browser.ask(as_page("PATCH", user.approval(run), answer)) == 403
    user.log_in()
    user.open_tab()
    user.read_plan()
    user.click_answer("Reject", "rejected")
    assert read_operations(user.platform.home) == []


def test_a_foreign_page_can_ask_for_nothing(user: PageUser) -> None:
    known = [run["dag_run_id"] for run in user.platform.runs("sessionizer.operate")]
    user.browser.open("data:text/html,<p>a foreign page</p>")
    user.browser.wait_for_text("a foreign page")
    found = user.browser.ask(FORGED % f"{user.address}{RUN.format(dag='sessionizer.operate')}")
    assert found[0] == "refused"
    assert [run["dag_run_id"] for run in user.platform.runs("sessionizer.operate")] == known


def test_a_stream_is_stopped_by_clicks(user: PageUser) -> None:
    user.open_tab()
    uid = known(user.platform.look().uid)
    user.act("Stop", why="repair")
    user.browser.wait_for_text("stop: done", 60)
    user.platform.wait_until_stopped(uid)
    desired = read_desired(user.platform.home)
    assert (desired.state, desired.why) == (DesiredState.STOPPED, "repair")
    user.browser.wait_for_text("Start", 30)
    wait_for_mark(user, "stop")
    user.see("stopped")


def test_a_stream_is_started_by_keyboard_alone(user: PageUser) -> None:
    uid = user.platform.look().uid
    user.open_tab()
    user.browser.tab_to(".actions button", 150)
    assert user.browser.ask(FOCUSED_TEXT) == "Start"
    user.browser.press("Enter")
    user.browser.tab_to("dialog button[type=submit]")
    user.browser.press("Enter")
    wait_until(lambda: user.browser.says("dialog") == [], 10, "a dialog that is closed")
    user.browser.wait_for_text("start: done", 60)
    assert user.browser.ask(FOCUSED_TEXT) in {"Start", "Stop"}, "the focus is where it was"
    user.platform.wait_for_launch(other_than=uid, seconds=240)
    user.feed(1)
    wait_for_mark(user, "start")
    wait_until(
        lambda: "Stop" in [name for name, _, _ in user.browser.says(".actions", ACTIONS)[0]], 30, "a stop button"
    )


def test_a_savepoint_that_is_asked_for_twice_in_a_moment_is_made_once(user: PageUser) -> None:
    user.open_tab()
    known = [each.id for each in list_savepoints(user.platform.home.savepoints, epoch_ms())]
    user.click(".actions button", "Savepoint")
    user.browser.fill("#field-why", "pressed twice")
    user.browser.press("Enter")
    user.browser.press("Enter")
    user.browser.wait_for_text("savepoint: done", 240)
    saved = [each.id for each in list_savepoints(user.platform.home.savepoints, epoch_ms())]
    assert len(saved) == len(known) + 1
    user.browser.wait_for_text(f"→ savepoint {saved[-1]}")
    wait_until(lambda: any(saved[-1] in label for label in marks_shown(user)), 30, "the savepoint on the axis")
    user.see("savepoint")
    user.close_cards()


def test_an_upgrade_goes_on_in_place(user: PageUser) -> None:
    home = user.platform.home
    uid = user.platform.look().uid
    user.write_spec(MEASURED)
    user.open_tab()
    user.act("Upgrade …", why="count pages")
    plan = user.read_plan()
    assert "measures.pages" in plan
    assert user.platform.look().uid == uid, "a plan leaves the stream alone"
    user.see("upgrade")
    user.click_answer("Approve", "carry out: done")
    (record,) = read_operations(home)
    assert (record.verb, record.by, record.outcome) == ("upgrade", "admin (Airflow)", Ending.DONE)
    user.platform.wait_for_launch(other_than=uid, seconds=240)
    kept = known(SPEC_FILE.of(home, active_lineage(home) or "").require())
    assert kept.document["measures"] == MEASURED["measures"]
    wait_for_mark(user, "command upgrade")
    user.close_cards()
    user.feed(1)


def test_a_refused_plan_says_why_and_one_that_is_accepted_may_be_rejected(user: PageUser) -> None:
    home, uid = user.platform.home, user.platform.look().uid
    operations = len(read_operations(home))
    user.write_spec(WITH_COLUMN)
    user.browser.open(f"{user.address}/streams-page/#/clicks")
    user.browser.wait_for_text("Timeline")
    user.act("Upgrade …", why="a column more")
    user.browser.wait_for_text("approve: plan refused", 300)
    (told,) = user.browser.says("dialog .change")
    assert "--accept" not in told, "what the dialog does is not typed"
    assert user.browser.says("dialog .change button.primary", "e.disabled") == [True]
    for width, height in SIZES:
        user.browser.show_as(width, height)
        assert user.browser.says("html, dialog", "Math.max(0, e.scrollWidth - e.clientWidth)")[-2:] == [0, 0], width
        user.see(f"refused {width}")
    user.browser.show_as(1280, 900)
    user.click("dialog input[name=accept][value='mapping.payload.agent']")
    user.click("dialog button.primary", "Plan again with these")
    plan = user.read_plan()
    assert "partial, accepted" in plan
    assert user.newest_run["conf"] == {"stream": "clicks", "why": "a column more", "accept": "mapping.payload.agent"}
    user.see("accepted")
    user.click_answer("Reject", "rejected")
    user.close_cards()
    user.write_spec(MEASURED)
    assert len(read_operations(home)) == operations
    assert user.platform.look().uid == uid


def test_a_savepoint_is_restored_by_keyboard_and_its_canary_promoted_by_clicks(user: PageUser) -> None:
    home, browser = user.platform.home, user.browser
    before, uid = active_lineage(home), user.platform.look().uid
    user.open_tab()
    browser.click("button", "1 h")
    browser.tab_to(".point", 150)
    browser.press("Home")
    for _ in range(40):
        if str(browser.ask(FOCUSED_LABEL)).startswith("savepoint"):
            break
        browser.press("ArrowRight")
    browser.press("Enter")
    browser.wait_for_text("Restore to this savepoint …")
    browser.tab_to(".chosen button.primary")
    browser.press("Enter")
    (saved,) = browser.says("#field-savepoint", "e.value")
    browser.tab_to("dialog button[type=submit]")
    browser.press("Enter")
    plan = user.read_plan()
    assert saved in plan
    browser.tab_to(".plan button.primary", 200)
    user.see("keyboard")
    browser.press("Enter")
    browser.wait_for_text("carry out: done", 400)
    record = read_operations(home)[-1]
    assert (record.verb, record.savepoint, record.outcome) == ("restore", saved, Ending.DONE)
    lineage = active_lineage(home)
    assert lineage == record.lineage_to != before
    user.close_cards()
    user.platform.wait_for_launch(other_than=uid, seconds=240)
    browser.wait_for_text("Promote", 60)
    user.see("canary")
    user.act("Promote")
    browser.wait_for_text("promote: done", 120)
    canary = known(read_canary(home, lineage or ""))
    assert (canary.outcome, canary.by) == (CanaryOutcome.PROMOTED, "admin (Airflow)")
    wait_for_mark(user, "canary accepted")
    user.close_cards()
    wait_until(lambda: "Promote" not in browser.text(), 30, "no canary any more")
    user.feed(1)


def test_a_rollback_of_a_restore_tells_the_rows_that_come_back(user: PageUser) -> None:
    home, operations = user.platform.home, len(read_operations(user.platform.home))
    user.open_tab()
    user.act("Roll back …")
    plan = user.read_plan()
    assert "brought back" in plan
    user.see("way back")
    user.click_answer("Reject", "rejected")
    user.close_cards()
    assert len(read_operations(home)) == operations


def test_a_canary_is_rejected_by_clicks(user: PageUser) -> None:
    home, browser = user.platform.home, user.browser
    before, uid = active_lineage(home), user.platform.look().uid
    user.open_tab()
    user.save_by_click()
    user.act("Restore …")
    user.read_plan()
    user.click_answer("Approve", "carry out: done")
    user.close_cards()
    second = user.platform.wait_for_launch(other_than=uid, seconds=240)
    assert active_lineage(home) != before
    user.feed(1)
    browser.wait_for_text("Reject the canary …", 60)
    user.act("Reject the canary …", why="it is tried")
    assert str(before) in user.read_plan()
    user.see("reject")
    user.click_answer("Approve", "carry out: done")
    user.close_cards()
    record = read_operations(home)[-1]
    assert (record.verb, record.lineage_to, record.outcome) == ("rollback", before, Ending.DONE)
    assert active_lineage(home) == before
    user.platform.wait_for_launch(other_than=second, seconds=240)
    wait_for_mark(user, "command rollback")


def test_of_two_plans_the_later_answer_changes_nothing(user: PageUser) -> None:
    """Two equal ones. The stream is stopped meanwhile, so that no driver has to end and start between the answers."""
    done = "e.textContent.includes('carry out: done')"
    platform, home, browser = user.platform, user.platform.home, user.browser
    user.open_tab()
    user.save_by_click()
    uid = platform.look().uid
    platform.stop()
    user.act("Restore …", why="one")
    user.close_cards()
    user.act("Restore …", why="two")
    user.close_cards()
    wait_until(lambda: len(browser.says(".plan")) == 2, 300, "two plans")
    user.read_plan()
    user.see("two plans")
    user.click_answer("Approve", "carry out: done")
    restored, operations = active_lineage(home), read_operations(home)
    user.click(".plan button", "Approve")
    wait_until(lambda: browser.says(".change", done)[:2] == [True, True], 120, "two plans that are over")
    user.see("two answers")
    assert (active_lineage(home), read_operations(home)) == (restored, operations)
    user.close_cards()
    platform.run_now("clicks.start")
    platform.wait_for_launch(other_than=uid, seconds=240)


def test_a_user_whose_session_is_over_is_told_to_sign_in(user: PageUser) -> None:
    user.open_tab()
    user.browser.forget_user()
    user.act("Savepoint")
    user.browser.wait_for_text("Sign in again")
    user.see("signed out")
    user.log_in()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_tabs_fit_each_size_and_theme(width: int, height: int, theme: str, user: PageUser) -> None:
    run, browser = user.platform.watch(), user.browser
    browser.show_as(width, height, theme)
    for name, place in TABS.items():
        route = {"dag": "stream", "run": "stream-of-run", "task": "stream-of-task"}[name]
        browser.open(f"{user.address}/dags/{user.platform.dag}{place.format(run=run)}/plugin/{route}")
        browser.wait_for_text("Lineages")
        wait_until(lambda: theme in str(browser.ask("document.documentElement.className")), 10, "Airflow's theme")
        assert browser.says("html", "e.scrollWidth - e.ownerDocument.defaultView.innerWidth")[-1] <= 0
        assert browser.ask(f"getComputedStyle({FRAME}.documentElement).colorScheme") == theme
        height, scrolls, _ = browser.ask(TAB)
        assert (height, scrolls) == (LEAST_HEIGHT, True) or (height > LEAST_HEIGHT and not scrolls), (height, scrolls)
        assert not scrolls or width < 1280, "a larger window is as Airflow makes it"
        user.see(f"tab {name} {width} {theme}")
        browser.ask(f"{FRAME}.defaultView.focus()")
        browser.press("End")
        wait_until(lambda: browser.ask(TAB)[2], 10, "the whole frame, at its end")
        user.see(f"end {name} {width} {theme}")
    browser.open(f"{user.address}/plugin/streams")
    browser.wait_for_text("2 streams")
    user.see(f"fleet {width} {theme}")
    browser.show_as(1280, 900)


def test_a_tab_that_is_left_leaves_the_host_as_it_was(user: PageUser) -> None:
    browser = user.browser
    rules = "[...document.querySelectorAll('style')].filter((each) => each.textContent.includes('stream-tab')).length"
    browser.show_as(768, 800)
    user.open_tab()
    assert browser.ask(rules) == 1
    browser.click("a[title=Overview]")
    wait_until(lambda: browser.ask(rules) == 0, 10, "Airflow's own tab")
    user.open_tab()
    browser.click("button", "Whole page")
    wait_until(lambda: browser.ask("location.pathname + location.hash") == "/plugin/streams#/clicks", 30, "its page")
    browser.wait_for_text("Timeline")
    user.see("whole page 768")
    browser.show_as(1280, 900)


def test_a_dag_that_is_no_stream_says_so(user: PageUser) -> None:
    user.browser.open(f"{user.address}/dags/sessionizer.operate/plugin/stream")
    user.browser.wait_for_text("No stream belongs to this DAG")
    user.see("no stream")


def test_the_tables_are_those_of_the_active_path(user: PageUser) -> None:
    user.feed(len(list(user.waiting.glob("*.json"))))
    user.stage.write_spec(MEASURED)
    user.platform.drain(user.stage)
    user.assert_exact()


FRAME = "document.querySelector('iframe').contentDocument"
TAB = """(() => {
  const frame = document.querySelector('iframe'), page = frame.contentDocument.documentElement;
  const [panel, place] = [document.getElementById('details-panel').firstElementChild, frame.getBoundingClientRect()];
  const ends = page.scrollHeight - page.scrollTop - page.clientHeight < 2 && place.bottom <= innerHeight;
  return [frame.clientHeight, panel.scrollHeight > panel.clientHeight, ends];
})()"""
FOCUSED_TEXT = f"{FRAME}.activeElement.textContent"
FOCUSED_LABEL = f"{FRAME}.activeElement.getAttribute('aria-label')"


def as_page(method: str, path: str, body: str) -> str:
    """A script that asks Airflow's API as a page of the user does, and returns the status."""
    asked = f"method: '{method}', headers: {{'Content-Type': 'application/json'}}, body: JSON.stringify({body})"
    return f"fetch('{path}', {{{asked}}}).then((answer) => answer.status)"


def marks_shown(user: PageUser) -> list[str]:
    return [str(label) for label in user.browser.says(".point", "e.getAttribute('aria-label')")]


def wait_for_mark(user: PageUser, text: str) -> None:
    """Wait until the axis has a mark like this, which is of the last minutes in the history, too."""
    wait_until(lambda: any(text in label for label in marks_shown(user)), 60, f"a mark {text!r} on the axis")
    kind = text.partition(" ")[0]
    found: list[Mark] = read_marks(user.platform.home, epoch_ms() - 600_000, epoch_ms())
    assert kind in {str(mark.kind) for mark in found}
