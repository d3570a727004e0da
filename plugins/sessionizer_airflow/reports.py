"""Reports on all streams: drivers without a spec or a supervisor, commands without a process, taken assets.

A report ends no driver. A watch sees a dead driver within seconds and acts, unless its DAG is paused or gone.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from sessionizer.control.records.supervision_records import (
    TOLD_OF_ORPHAN,
    TOLD_OF_STUCK,
    TOLD_OF_UNWATCHED,
    PauseRecord,
    SupervisionRecord,
)
from sessionizer.control.status.driver_status import State
from sessionizer.fleet.driver_rules import judge_asset
from sessionizer.fleet.finding import Rule
from sessionizer.fleet.stream_view import StreamView
from sessionizer.fleet.streams import all_streams
from sessionizer.home.clock import describe_duration, epoch_ms
from sessionizer.home.names import name_process
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.alerting import Alert, AlertKind
from sessionizer_airflow.assets import find_taken_asset
from sessionizer_airflow.errors import StreamFindings
from sessionizer_airflow.internals import find_asset_uri
from sessionizer_airflow.operators.desired_state import ask_pause
from sessionizer_airflow.supervision.tell import alert_on_unattended

DOWN: Final = frozenset({State.FAILED, State.VANISHED, State.STALLED, State.STOPPED})


def report_unwatched(
    platform_home: Path, streams: Path, patience: int, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Alert users of each new stream that has no driver or supervisor. Raises StreamFindings if there are any."""
    found = []
    for view in all_streams(platform_home, streams):
        if not view.specified:
            continue
        if view.driver is None:
            say(f"{view.name} cannot be examined: {view.problem}")
            continue
        alert, home = find_unwatched(view, patience, epoch_ms()), StreamHome.of(platform_home, view.name)
        if alert is None:
            TOLD_OF_UNWATCHED.forget(home)
            continue
        found.append(alert)
        if TOLD_OF_UNWATCHED.is_news(home, view.owner.uid or None):
            tell(alert)
    calm = "every stream that should run runs, or its supervisor acts"
    _conclude([(each.reason, each.what_to_do) for each in found], say, calm)


def find_unwatched(view: StreamView, patience: int, now_ms: int) -> Alert | None:
    """Return the alert on a stream that is judged to have no driver or no supervisor, and for ``patience`` ms no act.

    A stream that was given up is none, because users know of it: its DAG is red and paused.
    """
    record = view.supervision or SupervisionRecord()
    finding = next((each for each in view.health.findings if each.rule.is_unattended), None)
    if finding is None or record.given_up:
        return None
    seen, acted_at = view.owner, view.watch.until if view.watch else 0
    if seen.state in DOWN:  # when the driver or its supervisor last acted
        launch = view.driver.launch if view.driver else None
        parts = (seen.heartbeat, seen.exit_record, seen.desired, launch)
        acted_at = max(record.last_failure_ms, *(part.at for part in parts if part is not None))
    silence = now_ms - (acted_at or now_ms)  # a driver without a watch is run by a user
    if silence <= patience:
        return None
    told = "" if finding.rule is Rule.UNWATCHED else f". No supervisor has acted for {describe_duration(silence)}"
    reason = f"{name_process(view.owner.uid)} of stream {view.name}: {finding.what}{told}"
    return Alert.about(AlertKind.UNWATCHED, view.name, (reason, finding.remedy), view.owner.heartbeat)


def report_orphans(
    platform_home: Path, streams: Path, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Say a line for each orphan, and alert users of each new one. Raises StreamFindings if there are any."""
    found = []
    for view in all_streams(platform_home, streams):
        if view.home is None:
            continue
        finding = next((each for each in view.health.findings if each.rule is Rule.ORPHAN), None)
        if finding is None:
            TOLD_OF_ORPHAN.forget(view.home)
            continue
        found.append(finding)
        say(f"{finding.what} → {finding.remedy}")
        if TOLD_OF_ORPHAN.is_news(view.home, view.owner.uid):
            told = finding.what, finding.remedy
            tell(Alert.about(AlertKind.ORPHANED, view.name, told, view.owner.heartbeat))
    _conclude([(each.what, each.remedy) for each in found], say, "every driver that runs has a spec")


def report_stuck(
    platform_home: Path, streams: Path, patience: int, say: Callable[[str], None], tell: Callable[[Alert], None]
) -> None:
    """Alert users of each new stuck command, unless its watch has done so. Raises StreamFindings if there are any."""
    found = []
    for view in all_streams(platform_home, streams):
        unfinished = view.unfinished
        if unfinished is None or not unfinished.is_unattended(epoch_ms(), patience):
            continue
        found.append((f"stream {view.name}: {unfinished.standing}", unfinished.go_on))
        if TOLD_OF_STUCK.is_news(StreamHome.of(platform_home, view.name), unfinished.try_key):
            tell(alert_on_unattended(view.name, unfinished))
    _conclude(found, say, "every unfinished command has a process")


def report_assets(
    platform_home: Path,
    streams: Path,
    say: Callable[[str], None],
    find_uri: Callable[[str], str | None] = find_asset_uri,
) -> None:
    """Note for each stream what Airflow says of it: the pause of its supervisor, and an asset that another DAG has.

    ``find_uri`` returns the URI of Airflow's active asset of a name.

    Raises StreamFindings: another DAG has an asset.
    """
    found = []
    for view in all_streams(platform_home, streams):
        if not view.specified:
            continue
        taken, uri = find_taken_asset(view.name, find_uri) or ("", "")
        ask_pause(StreamHome.of(platform_home, view.name), taken=taken)
        finding = judge_asset(replace(view, noted=PauseRecord(paused=view.paused, at=view.now, taken=taken)))
        if finding is not None:
            say(f"stream {view.name}: {finding.what}. Its URI is {uri}")
            found.append((f"stream {view.name}: {finding.what}", finding.what_to_do))
    _conclude(found, say, "every stream has its assets")


def _conclude(found: Sequence[tuple[str, str]], say: Callable[[str], None], calm: str) -> None:
    """Raise the findings, each with its remedy, or say that there are none."""
    if found:
        raise StreamFindings([what for what, _ in found], "; ".join(how for _, how in found))
    say(calm)
