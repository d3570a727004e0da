"""What Airflow loads from its plugins folder: the links on supervising tasks, and the pages that they open."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sessionizer_airflow.links import DriverLogLink, SparkUiLink, TablesLink
from sessionizer_airflow.pages.mounting import PREFIX, pages


class SessionizerPlugin(AirflowPlugin):
    """See the module."""

    name = "sessionizer"
    fastapi_apps: list[Any] = [{"app": pages, "url_prefix": PREFIX, "name": "sessionizer"}]  # noqa: RUF012 - as declared
    operator_extra_links: list[Any] = [DriverLogLink(), SparkUiLink(), TablesLink()]  # noqa: RUF012 - as declared
