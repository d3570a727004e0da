"""Application of the pages, made at the first request: every Airflow process loads the plugin, but one serves pages."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX: Final = "/sessionizer"


async def pages(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass the request on to the application."""
    await _app()(scope, receive, send)


@cache
def _app() -> ASGIApp:
    from sessionizer_airflow.pages.app import create_app  # noqa: PLC0415  see above

    return create_app()
