"""Plugin that Airflow loads by the entry point of the installed package.

It has the Streams page, the links on supervising tasks, the pages that they open, and the listener for users' marks on
such tasks. It also has the listener that notes on the runs of `sessionizer.operate` what they do, and the reference of
the deadline for a watch.
"""

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sessionizer_airflow import listener
from sessionizer_airflow.alerting import WatchBegins
from sessionizer_airflow.pages.links import (
    PREFIX,
    STREAMS,
    DriverLogLink,
    SparkUiLink,
    TablesLink,
    pages,
    streams_page,
    views,
)


class SessionizerPlugin(AirflowPlugin):
    """The plugin. Its parts are listed in the module's docstring."""

    name = "sessionizer"
    fastapi_apps: list[Any] = [  # noqa: RUF012 - as declared
        {"app": pages, "url_prefix": PREFIX, "name": "sessionizer"},
        {"app": streams_page, "url_prefix": STREAMS, "name": "streams"},
    ]
    external_views: list[Any] = views()
    operator_extra_links: list[Any] = [DriverLogLink(), SparkUiLink(), TablesLink()]  # noqa: RUF012 - as declared
    listeners: list[Any] = [listener]  # noqa: RUF012 - as declared
    deadline_references: list[Any] = [WatchBegins]  # noqa: RUF012 - as declared
