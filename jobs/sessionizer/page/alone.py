"""The page without Airflow: on the loopback interface, for one user with the token. It offers no actions."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sessionizer.page.app import HEADERS, PageHost, create_page
from sessionizer.page.reader import PageReader

LOOPBACK: Final = "127.0.0.1"
COOKIE: Final = "sessionizer_page"


def create_page_alone(home: Path, streams: Path, token: str) -> FastAPI:
    """Make the page over the platform at ``home``. Each request must bring the ``token``, as a cookie or a header."""

    def has_token(request: Request) -> None:
        """Refuse a request without the token."""
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not any(_is_same(given, token) for given in (request.cookies.get(COOKIE, ""), bearer)):
            raise HTTPException(401, "open the address that `sessionizer page` printed")

    host = PageHost(
        may_open=has_token,
        may_read=has_token,
        may_read_rows=has_token,
        sees=_sees_all,
        offers=_offers_nothing,
        settings={"name": "alone"},
    )
    app = create_page(PageReader(home, streams), host)

    @app.middleware("http")
    async def take_token(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        """Keep the token of the address in a cookie, so that it does not stay in the address."""
        given = request.query_params.get("token")
        if request.url.path != "/" or given is None or not _is_same(given, token):
            return await call_next(request)
        answer = RedirectResponse("/", status_code=303, headers=HEADERS)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return answer

    # Without it, a foreign page could reach us by a name of its own that leads to this machine.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])
    return app


def listen(port: int) -> socket.socket:
    """Return a socket on the loopback interface. Raises OSError if the port is taken."""
    found = socket.create_server((LOOPBACK, port))
    found.set_inheritable(True)
    return found


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _sees_all() -> Callable[[AbstractSet[str]], AbstractSet[str]]:
    return lambda dags: dags


def _offers_nothing() -> dict[str, Any]:
    return {}
