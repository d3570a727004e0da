"""Upgrades that a user asks for in a browser, and one that a window begins. The stream comes back each time.

`clicks` is a lineage of the golden release. `visits` is edited in four ways, one after another, while each of its users
has a session that is open all the time.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import httpx
import pytest

from sessionizer.checkpoint.state_files import move_schema
from sessionizer.control.records.operation_record import Ending, OperationRecord, read_operations
from sessionizer.control.records.supervision_records import DesiredState, write_desired
from sessionizer.lineage.active import active_lineage
from sessionizer.lineage.fingerprint import read_fingerprint
from sessionizer.state.lineages.origin import ORIGIN_FILE
from sessionizer.state.proof.result import list_kept_pages
from sessionizer_demo.local_airflow.api import wait_until
from support.expected.landed import batches_on_path, table_rows
from support.pages.browser import chromium
from support.pages.page_user import BrowserUser
from support.places import known, mounted
from support.processes.driver_process import run_to_end
from support.processes.file_notifier import told
from support.processes.live_airflow import DRIVEN, OUR_DAGS, Platform, template_of
from support.releases.cut_release import EXPECTED, RELEASES, unpack_release
from support.streams.stage import Stage, clicks_spec

pytestmark = [pytest.mark.long, pytest.mark.timeout(2_400)]

GOLDEN = RELEASES / "0.1.0"
SPEC = template_of(clicks_spec())
READER, STRANGER = "reader", "stranger"
# the last one may log in, and has no role
USERS_OF_AIRFLOW = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"admin:admin,{READER}:viewer,{STRANGER}:"}
SETTINGS = DRIVEN | OUR_DAGS | USERS_OF_AIRFLOW
USERS = ("ann", "bob", "eve")
START_MS = 1_750_000_000_000
ALWAYS = "00:00-24:00"


def visits_spec(*migrations: dict[str, Any], key: str = "user", sink: str | None = None, **payload: str) -> Any:
    return {
        "source": {
            "format": "files",
            "path": "visits",
            "encoding": "json",
            "columns": "user string, at bigint, id string, page string, price double",
        },
        "mapping": {
            "key": key,
            "event_time": "timestamp_millis(at)",
            "event_id": "id",
            "payload": payload or {"page": "page", "price": "price"},
        },
        "rules": {"gap_timeout": "2 hours", "idle_after": None},
        "sink": {"path": sink},
        "migrations": [*migrations],
        "key_groups": 2,
        "trigger_interval": "1 second",
    }


PLACE = {"id": "place", "columns": {"place": "page"}, "drop": ["page"]}
KEYS = {"id": "keys", "key": "concat('u-', key)"}
CENTS = {"id": "cents", "columns": {"price": "cast(price * 100 as int)"}}
NEW_KEY = "concat('u-', user)"
ADDED = {"page": "page", "price": "price", "kind": "concat('at ', page)"}
RENAMED = {"place": "page", "price": "price", "kind": "concat('at ', page)"}
NARROWED = {**RENAMED, "price": "cast(price * 100 as int)"}
LAST_SPEC = visits_spec(PLACE, KEYS, CENTS, key=NEW_KEY, sink="cents", **NARROWED)
EDITS = {
    "a column added": (visits_spec(**ADDED), "mapping.payload.kind", "column added"),
    "a column renamed": (visits_spec(PLACE, **RENAMED), "", "carried over by place"),
    "another key": (visits_spec(PLACE, KEYS, key=NEW_KEY, **RENAMED), "", "carried over by keys"),
    "a type narrowed": (LAST_SPEC, "", "carried over by cents"),
}
"""By name: the spec, the difference that is accepted by name, and a part of the plan."""


@dataclass
class Upgrading(BrowserUser):
    """A user at the browser, who upgrades the stream of the platform."""

    dag: ClassVar = "sessionizer.upgrade"

    def of(self, stream: str) -> Upgrading:
        return Upgrading(self.platform.of(stream), self.browser)

    def click_for_plan(self, accept: str = "", *ticked: str, picture: str = "") -> tuple[str, str]:
        """Fill in the form, tick these boxes and wait for the plan. Return the run, and what its approval page says."""
        before = self.runs()
        self.browser.open(f"{self.address}/dags/{self.dag}")
        self.browser.click("button[aria-label='Trigger Dag']")
        self.browser.wait_for_text("Select Value")
        wait_until(self._has_chosen_stream, 60, "a form with the stream")
        if accept:
            self.browser.fill("textarea[name=element_accept]", accept)
        for box in ticked:
            self.browser.click(f"label:has(input[name=element_{box}])")
        self.see(f"{picture} form" if picture else "")
        self.browser.click("[role=dialog] button", "Trigger")
        wait_until(lambda: self.runs() > before, 60, "a run")
        (run,) = self.runs() - before
        said = self.open_plan(run, "Digest")
        self.see(picture)
        return run, said

    def _has_chosen_stream(self) -> bool:
        """Return whether the form kept the stream for a second, after a try to choose it: a form loads in parts."""
        if "Select Value" in self.browser.text():
            self.browser.fill("[role=dialog] input[role=combobox]", self.platform.stream, press_enter=True)
        time.sleep(1)
        return "Select Value" not in self.browser.text()

    def runs(self) -> set[str]:
        return {str(run["dag_run_id"]) for run in self.platform.runs(self.dag)}

    def proof_link(self, run: str) -> str | None:
        links = self.platform.task(self.dag, run, "carry_out/links")["extra_links"]
        return str(links["Proof"]) if links.get("Proof") else None

    def write_visits(self, spec: Mapping[str, Any]) -> None:
        self.write_spec(spec, "visits")

    def count_operations(self) -> int:
        return len(read_operations(self.platform.home))

    def wait_for_upgrade(self, operations: int) -> OperationRecord:
        """Wait until another operation than so many is done. Returns it."""

        def is_done() -> bool:
            records = read_operations(self.platform.home)
            return len(records) > operations and records[-1].outcome is Ending.DONE

        wait_until(is_done, 600, "an upgrade that nobody asked for alone")
        return read_operations(self.platform.home)[-1]

    def feed(self, number: int) -> None:
        """Add a file with an event of each user, once the last one was read."""
        at = START_MS + 60_000 * number
        rows = [{"user": user, "at": at, "id": f"{user}-{number}", "page": "/", "price": 1.5} for user in USERS]
        folder = self.platform.installation.platform_home / "visits"
        (folder / ".next").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / ".next").rename(folder / f"{number:04}.json")
        wait_until(lambda: f"{number:04}.json" in self.names_read(), 300, "a stream that reads on")

    def names_read(self) -> set[str]:
        return {name for batch in batches_on_path(self.platform.home) for name in batch.files}


@pytest.fixture(scope="module")
def upgrading(platform: Platform) -> Iterator[Upgrading]:
    home = platform.installation.platform_home
    for feed in ("feed", "visits"):
        (home / feed).mkdir()
    place_golden_lineage(platform)
    with chromium() as browser:
        found = Upgrading(platform, browser)
        found.write_visits(visits_spec())
        found.log_in()
        yield found


def place_golden_lineage(platform: Platform) -> None:
    """Put the lineage of the release into the platform's home, as if it had been made there."""
    unpacked = unpack_release(GOLDEN, platform.installation.root / "golden")
    home = platform.installation.platform_home
    identity = json.loads((unpacked.home / "home.json").read_text())
    moved = {**identity, "path": str(home.resolve()), "machine": None, "folder": None}
    (home / "home.json").write_text(json.dumps(moved))
    place = mounted(platform.home.root)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(unpacked.home / "streams" / "clicks", place)
    checkpoint = mounted(platform.home.checkpoint(known(active_lineage(platform.home))))
    move_schema(checkpoint, f"file:{checkpoint}")


def began_from_a_savepoint(user: Upgrading, record: OperationRecord) -> bool:
    """Whether the new lineage of the command was made from a savepoint, as that of a replay is."""
    origin = ORIGIN_FILE.of(user.platform.home, str(record.lineage_to)).read()
    return origin is not None and origin.savepoint == f"upgrade-{record.id}"


def rows_of(platform: Platform, sink: str | None = None) -> list[dict[str, Any]]:
    """The sessions that have ended, as a reader without Spark sees them."""
    return table_rows(Path(platform.home.table_locations(sink)["sessions"]))


def test_a_lineage_of_the_golden_release_is_brought_to_head(upgrading: Upgrading) -> None:
    home = upgrading.platform.home
    before = active_lineage(home)
    run, plan = upgrading.click_for_plan("", "new_lineage", picture="golden release")
    assert "deciding code changed" in plan
    assert "new lineage begins" in plan
    assert upgrading.answer_by_click(run) == "success"
    (record,) = read_operations(home)
    assert (record.verb, record.by, record.outcome) == ("upgrade", "admin (Airflow)", Ending.DONE)
    assert active_lineage(home) == record.lineage_to != before
    upgrading.platform.api.unpause(upgrading.platform.dag)
    upgrading.platform.wait_for_launch(other_than=None, seconds=180)


def test_a_stream_is_edited_in_four_ways_and_comes_back_each_time(upgrading: Upgrading) -> None:
    visits = upgrading.of("visits")
    visits.platform.api.unpause(visits.platform.dag)
    for number in range(2):
        visits.feed(number)
    for number, (name, (spec, accept, said)) in enumerate(EDITS.items(), start=2):
        uid = visits.platform.wait_for_driver(seconds=240)
        visits.write_visits(spec)
        ticked = {"a column renamed": ["prove"], "another key": ["replay"]}.get(name, [])
        run, plan = visits.click_for_plan(accept, *ticked, picture=name)
        assert said in plan, name
        assert ("batches are replayed" in plan) is ("prove" in ticked), name
        assert "session" in plan
        assert visits.platform.working_uid() == uid, "a plan leaves the stream alone"
        assert visits.answer_by_click(run) == "success", name
        visits.feed(number)
        visits.platform.wait_for_driver(other_than=uid, seconds=60)
    records = read_operations(visits.platform.home)
    assert [(record.verb, record.outcome) for record in records] == [("upgrade", Ending.DONE)] * len(EDITS)
    assert len({record.lineage_to for record in records}) == len(EDITS), "three of them migrated, one went on in place"
    assert [began_from_a_savepoint(visits, record) for record in records] == [False, False, True, False]
    assert read_fingerprint(visits.platform.home, str(records[-1].lineage_to)).bundle == "dags-folder"


def test_a_rejected_plan_changes_nothing(upgrading: Upgrading) -> None:
    visits = upgrading.of("visits")
    uid, operations = visits.platform.working_uid(), visits.count_operations()
    visits.write_visits({**LAST_SPEC, "rules": {"gap_timeout": "3 hours", "idle_after": None}})
    run, plan = visits.click_for_plan()
    assert "gap loosened" in plan
    assert visits.answer_by_click(run, "Reject") == "success"
    assert (visits.platform.working_uid(), visits.count_operations()) == (uid, operations)


def test_a_plan_that_was_cleared_and_no_longer_holds_changes_nothing(upgrading: Upgrading) -> None:
    visits = upgrading.of("visits")
    uid, operations = visits.platform.working_uid(), visits.count_operations()
    run, _ = visits.click_for_plan()
    visits.write_visits({**LAST_SPEC, "rules": {"gap_timeout": "4 hours", "idle_after": None}})
    visits.clear(run, "approve")
    wait_until(lambda: visits.tries(run)["approve"] > 1, 120, "an approval that asks again")
    visits.wait_for_plan(run)
    visits.answer(run, "Approve")
    assert visits.wait_for_end(run, 300) == "failed"
    assert visits.states(run)["carry_out"] == "failed"
    assert (visits.platform.working_uid(), visits.count_operations()) == (uid, operations)


def test_the_button_of_a_run_opens_the_proof_that_it_made(upgrading: Upgrading) -> None:
    visits, browser = upgrading.of("visits"), upgrading.browser
    (proof,) = list_kept_pages(visits.platform.home)
    ((run, link),) = ((run, link) for run in visits.runs() if (link := visits.proof_link(run)))
    assert link.endswith(f"/sessionizer/visits.supervise/proof/{proof}")
    browser.open(f"{visits.address}/dags/{visits.dag}/runs/{run}/tasks/carry_out/details")
    browser.wait_for_text("Proof")
    visits.see("button of a proof")
    browser.ask("document.querySelectorAll('a[target]').forEach(each => each.removeAttribute('target'))")
    browser.click("a", "Proof")
    browser.wait_for_text("unexplained")
    assert proof in str(browser.ask("location.href"))
    visits.see("page of a proof")
    page = f"{visits.address}{urlsplit(link).path}"
    for user, code in {READER: 200, STRANGER: 403, "": 401}.items():
        cookie = {"Cookie": f"_token={visits.platform.token_of(user)}"} if user else {}
        assert httpx.get(page, headers=cookie, timeout=60).status_code == code, user


def test_a_window_carries_out_what_needs_nobody(upgrading: Upgrading) -> None:
    visits = upgrading.of("visits")
    rules = {"gap_timeout": "3 hours", "idle_after": None}
    upgrades = {"window": ALWAYS, "policy": "apply", "replay": True, "canary": 1}
    visits.write_visits({**LAST_SPEC, "rules": rules, "key_groups": 3, "upgrades": upgrades})
    operations = visits.count_operations()
    visits.platform.run_now("sessionizer.maintenance")
    record = visits.wait_for_upgrade(operations)
    assert record.by == f"policy apply, window {ALWAYS} (Airflow)"
    assert began_from_a_savepoint(visits, record)
    visits.feed(2 + len(EDITS))
    alerts = [each for each in told(visits.platform.told) if each["kind"] == "upgrade_waits"]
    assert [each["stream"] for each in alerts if each["stream"] == "visits"]
    visits.platform.run_now("sessionizer.maintenance")


class ListUser(Upgrading):
    """A user who approves the upgrades of many streams at once."""

    dag: ClassVar = "sessionizer.upgrade_all"


def test_one_answer_begins_the_upgrades_of_a_list(upgrading: Upgrading) -> None:
    visits = upgrading.of("visits")
    visits.write_visits({**LAST_SPEC, "rules": {"gap_timeout": "4 hours", "idle_after": None}, "key_groups": 3})
    operations = visits.count_operations()
    user = ListUser(upgrading.platform, upgrading.browser)
    run = user.platform.run_now(user.dag)
    assert "gap loosened" in user.open_plan(run, "wave by wave")
    user.see("list of upgrades")
    assert user.answer_by_click(run) == "success"
    user.browser.open(f"{user.address}/streams-page/")
    user.browser.wait_for_text("Upgrades: 0 of 1 done")
    assert [line.split(maxsplit=1)[0] for line in user.browser.says(".wave li", "e.innerText")] in (["waits"], ["runs"])
    record = visits.wait_for_upgrade(operations)
    user.browser.wait_for_text("Upgrades: 1 of 1 done", 300)
    user.see("waves")
    assert record.by.startswith("admin, ")


def test_every_session_that_was_open_is_whole(upgrading: Upgrading) -> None:
    platform, visits = upgrading.platform, upgrading.of("visits").platform
    for stream in (platform, visits):
        uid = stream.wait_for_launch(other_than=None, seconds=60)
        stream.run_now(f"{stream.stream}.stop")
        stream.wait_until_stopped(uid)
    platform.parts.stop_all()
    specs = Path(platform.installation.settings["SESSIONIZER_STREAMS"])
    for stream in (platform, visits):
        write_desired(stream.home, DesiredState.RUNNING, by="tests", why="to drain it without Airflow")
        stage = Stage(specs.parent, platform.installation.platform_home, stream.stream)
        shutil.copytree(specs, stage.streams, dirs_exist_ok=True)
        run_to_end(stage, "drain")
    expected = json.loads((GOLDEN / EXPECTED).read_text())
    assert sorted([row["session_id"], row["event_count"]] for row in rows_of(platform)) == sorted(
        [row[0], row[4]] for row in expected
    )
    assert rows_of(visits) == [], "none ended before the last upgrade"
    found = {row["key"]: [event["event_id"] for event in row["events"]] for row in rows_of(visits, "cents")}
    assert found == {f"u-{user}": [f"{user}-{number}" for number in range(3 + len(EDITS))] for user in USERS}
    assert {event["price"] for row in rows_of(visits, "cents") for event in row["events"]} == {150}
    assert {event["place"] for row in rows_of(visits, "cents") for event in row["events"]} == {"/"}
