"""Buttons on tasks.

The pages of a supervising task look up the current driver when a user opens them. A proof is that of its own run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from sessionizer.home.names import Verb, dag_id, minted_second
from sessionizer.state.proof.page import kept_pages
from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from sessionizer_airflow.pages.mounting import PREFIX

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

    from sessionizer.home.stream_home import StreamHome


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
        return _address(ti_key.dag_id, self.PAGE)


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


class ProofLink(BaseOperatorLink):
    """A button on a task that upgrades a stream. It opens the proof that the task made, if it made one.

    Airflow asks for the address when the task is over, however it ended.
    """

    @property
    def name(self) -> str:
        """The label of the button."""
        return "Proof"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - the interface
        """Return the address of the page, or nothing."""
        of_task: tuple[StreamHome, int] | None = getattr(operator, "proves", None)
        return "" if of_task is None else proof_address(*of_task)


def proof_address(home: StreamHome, since_ms: int) -> str:
    """Return the address of the newest proof of a stream that was begun at ``since_ms`` or later, or nothing."""
    begun = [proof for proof in kept_pages(home) if proof >= minted_second(since_ms)]
    return _address(dag_id(home.name, Verb.SUPERVISE), f"proof/{begun[-1]}") if begun else ""


def _address(dag: str, page: str) -> str:
    root = conf.get("api", "base_url", fallback="").rstrip("/")
    return f"{root}{PREFIX}/{dag}/{page}"
