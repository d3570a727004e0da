"""Buttons on a supervising task. Their pages look up the current driver when a user opens them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from sessionizer_airflow.pages.mounting import PREFIX

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class PageLink(BaseOperatorLink):
    """A button that opens the page ``PAGE`` of the task's stream."""

    operators: ClassVar[list[type[BaseOperator]]] = [SuperviseStream]
    PAGE: ClassVar[str]
    NAME: ClassVar[str]

    @property
    def name(self) -> str:
        """The label of the button."""
        return self.NAME

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - the interface
        """Return the address of the page."""
        root = conf.get("api", "base_url", fallback="").rstrip("/")
        return f"{root}{PREFIX}/{ti_key.dag_id}/{self.PAGE}"


class DriverLogLink(PageLink):
    """Link to the end of the driver's log."""

    PAGE = "log"
    NAME = "Driver log"


class SparkUiLink(PageLink):
    """Link to the Spark UI of the live driver."""

    PAGE = "spark-ui"
    NAME = "Spark UI"


class TablesLink(PageLink):
    """Link to the places of the tables."""

    PAGE = "tables"
    NAME = "Tables"
