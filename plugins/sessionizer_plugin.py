"""What Airflow loads from its plugins folder.

The links on supervising tasks, the pages that they open, and the ear for marks that people put on such tasks.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from sessionizer_airflow import marks
from sessionizer_airflow.links import DriverLogLink, SparkUiLink, TablesLink
from sessionizer_airflow.pages.mounting import PREFIX, pages


class SessionizerPlugin(AirflowPlugin):
    """See the module."""

    name = "sessionizer"
    fastapi_apps: list[Any] = [{"app": pages, "url_prefix": PREFIX, "name": "sessionizer"}]  # noqa: RUF012 - as declared
    operator_extra_links: list[Any] = [DriverLogLink(), SparkUiLink(), TablesLink()]  # noqa: RUF012 - as declared
    listeners: list[Any] = [marks]  # noqa: RUF012 - as declared
