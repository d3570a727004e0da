"""Applications of the pages, made at the first request: each Airflow process loads the plugin, one serves pages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX: Final = "/sessionizer"
STREAMS: Final = "/streams-page"


async def pages(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass the request on to the application."""
    await _app()(scope, receive, send)


@cache
def _app() -> ASGIApp:
    from sessionizer_airflow.pages.app import create_app  # noqa: PLC0415  see above

    return create_app()


async def streams_page(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass the request on to the Streams page."""
    await _streams_page()(scope, receive, send)


@cache
def _streams_page() -> ASGIApp:
    from sessionizer_airflow.pages.streams import create_streams_page  # noqa: PLC0415  see above

    return create_streams_page(pages=PREFIX)


def views() -> list[dict[str, Any]]:
    """Return the entries of Airflow's navigation: the table of streams, and a tab on DAGs."""
    href = f"{STREAMS.lstrip('/')}/"
    fleet = {"name": "Streams", "href": href, "destination": "nav", "url_route": "streams", "nav_top_level": True}
    stream = {"name": "Stream", "href": f"{href}?dag_id={{DAG_ID}}", "destination": "dag", "url_route": "stream"}
    return [fleet, stream]
