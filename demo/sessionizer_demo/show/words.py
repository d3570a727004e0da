"""The texts that the demo prints for its user."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sessionizer_demo.local_airflow.installation import USER
from sessionizer_demo.places import REPOSITORY

if TYPE_CHECKING:
    from sessionizer.home.stream_home import StreamHome
    from sessionizer_demo.local_airflow.installation import Installation

SESSIONS_QUERY = (
    "select client, close_reason, count(*) as sessions, round(avg(event_count), 1) as events, "
    "round(avg(duration_ms) / 1000, 1) as seconds from sessions group by all order by all"
)


def welcome(installation: Installation, stream: str) -> str:
    """Return the address of Airflow, the user and the password, the names of the DAGs, and how to type commands."""
    return "\n".join(
        [
            "",
            f"  Airflow     {installation.address}",
            f"  Streams     {installation.address}/plugin/streams",
            f"  user        {USER}",
            f"  password    {installation.password}",
            f"  DAGs        {stream}.supervise starts the stream; {stream}.stop and {stream}.start steer it",
            f"  logs        {installation.logs}",
            "",
            "Commands for its streams, in another terminal:",
            "",
            f"  export SESSIONIZER_HOME={installation.platform_home}",
            f"  export SESSIONIZER_STREAMS={REPOSITORY / 'dags' / 'streams'}",
            f"  {Path(sys.executable).parent / 'sessionizer'} status {stream}",
            "",
        ]
    )


def first_session(home: StreamHome, rows: int) -> str:
    """Return the locations of the tables, and a query to try."""
    return "\n".join(
        [
            f"sessions have landed ({rows} so far). The Delta tables:",
            "",
            *(f"  {name:<12}{home.table(name)}" for name in ("sessions", "quarantine", "late_events")),
            "",
            "Ask them, in another terminal:",
            "",
            f"  {query(home)}",
            "",
            "Ctrl-C ends the demo and all its processes.",
        ]
    )


def query(home: StreamHome) -> str:
    """Return a command to paste. It needs no Spark, only readers that come with the requirements."""
    load = f"sessions = deltalake.DeltaTable('{home.table('sessions')}').to_pyarrow_table()"
    return f"{sys.executable} -c \"import deltalake, duckdb; {load}; duckdb.sql('{SESSIONS_QUERY}').show()\""
