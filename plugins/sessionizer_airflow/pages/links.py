"""The pages in Airflow: where they are mounted, and the buttons on tasks that open them.

Their applications are made at the first request: each Airflow process loads the plugin, one serves pages. The pages of
a supervising task look up the current driver when a user opens them. A proof is that of its own run.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf
from airflow.sdk.types import TaskInstanceKey

from sessionizer.home.names import Verb, dag_id, mint_prefix
from sessionizer.home.stream_home import StreamHome
from sessionizer.state.proof.result import list_kept_pages
from sessionizer_airflow.operators.supervise_stream import SuperviseStream
from sessionizer_airflow.project import PLATFORM

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


PREFIX: Final = "/sessionizer"
STREAMS: Final = "/streams-page"


async def pages(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass the request on to the application."""
    await _app(PREFIX)(scope, receive, send)


async def streams_page(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass the request on to the Streams page."""
    await _app(STREAMS)(scope, receive, send)


@cache
def _app(place: str) -> ASGIApp:
    from sessionizer_airflow.pages.app import create_app, create_streams_page  # noqa: PLC0415  see above

    return create_app() if place == PREFIX else create_streams_page(pages=PREFIX)


def views() -> list[dict[str, Any]]:
    """Return the entries of Airflow's navigation: the table of streams and tabs. Airflow 3.3 ignores ``applies_to``."""
    href = f"{STREAMS.lstrip('/')}/"
    fleet = {"name": "Streams", "href": href, "destination": "nav", "url_route": "streams", "nav_top_level": True}
    stream = {"name": "Stream", "href": f"{href}?dag_id={{DAG_ID}}", "applies_to": {"dag_tags": [PLATFORM]}}
    places = {"dag": "stream", "dag_run": "stream-of-run", "task_instance": "stream-of-task"}
    return [fleet, *({**stream, "destination": place, "url_route": route} for place, route in places.items())]


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
    """A button on a task that upgrades a stream, to the proof that it made, if any. Airflow asks when it is over."""

    @property
    def name(self) -> str:
        """The label of the button."""
        return "Proof"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - the interface
        """Return the address of the page, or nothing."""
        of_task: tuple[StreamHome, int] | None = getattr(operator, "proves", None)
        if of_task is None:
            return ""
        home, since_ms = of_task
        begun = [proof for proof in list_kept_pages(home) if proof >= mint_prefix(since_ms)]
        return _address(dag_id(home.name, Verb.SUPERVISE), f"proof/{begun[-1]}") if begun else ""


def _address(dag: str, page: str) -> str:
    root = conf.get("api", "base_url", fallback="").rstrip("/")
    return f"{root}{PREFIX}/{dag}/{page}"
