"""The Streams page in Chromium: by keyboard alone, in light and dark, on a phone, and when someone is silent."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionizer.control.records.supervision_records import (
    APPROVED_UPGRADE,
    RUN_OF_WINDOW,
    DesiredState,
    ListApproval,
    write_desired,
)
from sessionizer.deployment.waiting import find_waiting
from sessionizer.fleet.waves import find_turn
from sessionizer.home.clock import epoch_ms
from sessionizer.home.stream_home import StreamHome
from sessionizer.lineage.active import start_lineage
from sessionizer.lineage.kept_spec import LineageSpec
from sessionizer.page.reader import PageReader
from sessionizer.stream_spec.decisions import document_of
from sessionizer.stream_spec.spec_folder import find_stream
from support.pages.browser import Browser, chromium
from support.pages.page_alone import ServedPage, serve, serve_fleet
from support.pages.page_user import PICTURES
from support.places import SUPPORT, known
from support.processes.fabricated_platform import SPEC, Platform
from support.processes.ports import eventually

NOTE = "window.broken = []; addEventListener('securitypolicyviolation', (event) => broken.push(event.blockedURI));"
INLINE = "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
LOOKS = "import('/tests/looks.js').then((looks) => [looks.unnamed(), looks.faint(), looks.overflow()])"
SIZES = ((375, 800), (1280, 900), (2560, 1400))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPage]:
    with serve_fleet(tmp_path_factory.mktemp("page")) as page:
        yield page


@pytest.fixture(scope="module")
def browser(page: ServedPage) -> Iterator[Browser]:
    with chromium() as browser:
        browser.run_first(NOTE)
        browser.open(page.entrance)
        yield browser


@pytest.fixture
def fleet(browser: Browser) -> Browser:
    browser.show_as(1280, 900)
    browser.ask("location.hash = '#/'")
    browser.wait_for_text("11 streams")
    return browser


def test_a_point_on_the_axis_is_chosen_by_keyboard_alone(fleet: Browser) -> None:
    fleet.ask("document.activeElement.blur()")
    fleet.tab_to("a[href='#/checkout']")
    fleet.press("Enter")
    fleet.wait_for_text("Timeline")
    fleet.tab_to("button[aria-pressed='true']")
    fleet.tab_to(".point")
    fleet.press("Home")
    assert fleet.ask("document.activeElement.getAttribute('aria-label')").startswith("savepoint native")
    fleet.press("Enter")
    fleet.wait_for_text("sessionizer restore checkout 20261126T010203-d4e5f6")
    assert fleet.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is not seen"
    fleet.tab_to("section.axis")
    fleet.press("ArrowLeft")
    fleet.press("Enter")
    fleet.wait_for_text("sessionizer restore checkout 20261126T031500-0a9b8c")
    fleet.press("Escape")
    eventually(lambda: "sessionizer restore" not in fleet.text(), 90, "nothing chosen")


def test_a_time_between_marks_is_chosen_by_a_click(fleet: Browser) -> None:
    fleet.click("a", "search")
    fleet.click(".lane.events")
    fleet.wait_for_text("20261126T010203-d4e5f6 native, batch 88000")


def test_the_first_stop_of_tab_skips_the_head(page: ServedPage, browser: Browser) -> None:
    browser.open("about:blank")
    browser.open(f"{page.address}/#/")
    browser.wait_for_text("11 streams")
    browser.press("Tab")
    assert browser.ask("document.activeElement.className") == "skip"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_each_size_and_theme(width: int, height: int, theme: str, fleet: Browser) -> None:
    fleet.show_as(width, height, theme)
    for place, text in (("#/", "11 streams"), ("#/checkout", "Lineages"), ("#/billing", "given up")):
        fleet.ask(f"location.hash = '{place}'")
        fleet.wait_for_text(text)
        assert fleet.ask(LOOKS) == [[], [], 0], (place, width, theme)


def test_names_as_long_as_they_may_be_do_not_break_the_page(page: ServedPage, fleet: Browser) -> None:
    name = "a" + "bcdefghi_" * 6
    page.platform.add(name)
    try:
        fleet.show_as(375, 800)
        fleet.wait_for_text(name)
        fleet.ask(f"location.hash = '#/{name}'")
        eventually(lambda: fleet.ask("document.querySelector('h1').textContent") == name, 90, "its own page")
        fleet.wait_for_text("no driver has run yet")
        assert fleet.ask("document.documentElement.scrollWidth") == 375
    finally:
        (page.platform.streams / f"{name}.yaml").unlink()


def test_a_user_who_wants_no_motion_sees_none(browser: Browser) -> None:
    animated = (
        "(() => { const bone = document.createElement('div'); bone.className = 'bone'; document.body.append(bone);"
    )
    animated += " const found = getComputedStyle(bone).animationName; bone.remove(); return found; })()"
    browser.show_as(1280, 900)
    assert browser.ask(animated) == "breathe"
    browser.show_as(1280, 900, motion="reduce")
    assert browser.ask(animated) == "none"


def test_nothing_comes_from_another_host_or_from_the_page_itself(page: ServedPage, fleet: Browser) -> None:
    fetched = fleet.ask("performance.getEntriesByType('resource').map((each) => each.name)")
    assert len(fetched) > 10
    assert {each for each in fetched if not each.startswith(f"{page.address}/")} == set()
    assert fleet.ask("broken") == []
    fleet.ask(INLINE)
    fleet.ask("fetch('http://127.0.0.2:1/').catch(() => null)")
    assert fleet.ask("window.ran || 0") == 0
    eventually(lambda: len(fleet.ask("broken")) == 2, 90, "the inline script and the foreign host are refused")
    fleet.ask("broken.length = 0")


def test_a_silent_driver_is_told(page: ServedPage, fleet: Browser) -> None:
    fleet.wait_for_text("video_plays is silent")
    fleet.ask("location.hash = '#/clicks'")
    fleet.wait_for_text("Timeline")
    assert "is silent" not in fleet.text()
    page.silent.add("clicks")
    try:
        fleet.wait_for_text("clicks is silent since")
    finally:
        page.silent.clear()
    eventually(lambda: "is silent" not in fleet.text(), 90, "the driver is heard again")


def test_a_platform_without_streams_and_one_that_cannot_be_read(page: ServedPage, browser: Browser) -> None:
    browser.ask("location.hash = '#/nothing'")
    browser.wait_for_text("No stream belongs to this DAG")
    specs = page.platform.streams
    specs.rename(specs.with_suffix(".away"))
    try:
        browser.ask("location.hash = '#/'")
        browser.wait_for_text("cannot read the streams")
    finally:
        specs.with_suffix(".away").rename(specs)
    eventually(lambda: "cannot read" not in browser.text(), 90, "a page that recovers")
    browser.wait_for_text("11 streams")


def test_a_server_that_ends_leaves_what_was_seen(page: ServedPage, browser: Browser) -> None:
    """The last test: nothing is served after it."""
    browser.ask("location.hash = '#/'")
    browser.wait_for_text("11 streams")
    page.server.should_exit = True
    browser.wait_for_text("does not answer. What you see is as of")
    assert "billing" in browser.text()
    assert browser.ask("document.body.classList.contains('stale')")


def test_upgrades_of_a_list_are_followed_wave_by_wave(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    platform, states = Platform(tmp_path / "home", tmp_path / "specs"), dict[str, str]()
    names = ("alpha", "beta", "gamma_" * 6 + "z")
    for wave, name in enumerate(names):
        home, text = platform.add(name), SPEC.format(name=name) + f"upgrades: {{wave: {wave}}}\n"
        home.prepare()
        platform.add(name, text)
        start_lineage(home, spec=LineageSpec(document_of(find_stream(platform.streams, name))))
        write_desired(home, DesiredState.RUNNING, by="olga", why="")
        platform.add(name, text + "rules: {gap_timeout: 5 minutes}\n")
        digest = known(find_waiting(home, find_stream(platform.streams, name))).digest
        APPROVED_UPGRADE.of(home).write(ListApproval(digest=digest, by="olga", until=epoch_ms() + 3_600_000))

    def begin(name: str) -> str:
        home, spec = StreamHome.of(platform.home, name), find_stream(platform.streams, name)
        run = known(known(find_turn(home, spec, find_waiting(home, spec), states.get, epoch_ms())).run)
        RUN_OF_WINDOW.is_news(home, run)
        states[run] = "running"
        return run

    with serve(platform) as page, chromium() as browser:
        reader: PageReader = page.server.config.app.state.reader  # type: ignore[union-attr]
        browser.open(page.entrance)
        browser.wait_for_text("3 streams")
        assert "Upgrades:" not in browser.text(), "a host without runs has no waves"
        reader.state_of = states.get  # what Airflow knows of its runs
        wait_for_waves(browser, ["waits begins within five minutes", *["waits waits for its turn"] * 2])
        run = begin("alpha")
        wait_for_waves(browser, ["runs until its stream works", *["waits waits for its turn"] * 2])
        platform.add("alpha", SPEC.format(name="alpha") + "upgrades: {wave: 0}\n")
        write_desired(StreamHome.of(platform.home, "alpha"), DesiredState.STOPPED, by="olga", why="")
        states[run] = "success"
        wait_for_waves(browser, ["done", "waits begins within five minutes", "waits waits for its turn"])
        states[begin("beta")] = "failed"
        held = "begins once a failed upgrade is mended and its run cleared"
        browser.wait_for_text(held)
        for width, height in ((375, 800), (768, 1024), (1440, 900)):
            browser.show_as(width, height)
            assert browser.ask(LOOKS) == [[], [], 0], width
            if PICTURES is not None:
                browser.picture(PICTURES / f"waves-{width}.png")
        (done, failed, waits) = browser.says(".wave li")
        assert (done.startswith("done"), failed.startswith("failed"), waits.endswith(held)) == (True, True, True)
        assert "its run failed" in failed
        assert "Upgrades: 1 of 3 done" in browser.text()


def wait_for_waves(browser: Browser, told: list[str]) -> None:
    """Wait until each line of the waves says this beside the name of its stream."""
    script = "[...e.querySelectorAll('.tag, .why')].map((each) => each.textContent).join(' ')"
    eventually(lambda: browser.says(".wave li", script) == told, 120, f"waves {told}")


SCRIPT = SUPPORT / "pages" / "module_tests.js"
NAMES = re.findall(r"^test\('([^']+)'", SCRIPT.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def browser_of_page_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder: Path = tmp_path_factory.mktemp("page")
    (folder / "specs").mkdir()
    with serve(Platform(folder / "home", folder / "specs")) as page, chromium() as browser:
        browser.open(page.entrance)
        browser.wait_for_text("No stream yet")
        names = f"import('/tests/{SCRIPT.name}').then((found) => Object.keys((window.found = found).tests))"
        assert browser.ask(names) == NAMES
        yield browser


@pytest.mark.parametrize("name", NAMES)
def test_a_module(name: str, browser_of_page_modules: Browser) -> None:
    run = f"await found.tests[{json.dumps(name)}]()"
    script = f"(async () => {{ try {{ {run}; return ''; }} catch (error) {{ return String(error); }} }})()"
    assert browser_of_page_modules.ask(script) == ""
