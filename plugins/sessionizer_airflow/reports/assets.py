"""Report of assets whose name another DAG has taken from a stream: DAGs scheduled on them never start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sessionizer.control.records.supervision_records import PauseRecord
from sessionizer.fleet.driver_rules import judge_asset
from sessionizer.fleet.streams import all_streams
from sessionizer.home.stream_home import StreamHome
from sessionizer_airflow.assets import find_taken_asset
from sessionizer_airflow.errors import StreamFindings
from sessionizer_airflow.internals import find_asset_uri
from sessionizer_airflow.operators.desired_state import ask_pause

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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
    if found:
        raise StreamFindings([what for what, _ in found], "; ".join(how for _, how in found))
    say("every stream has its assets")
