"""The Streams page alone over a fabricated fleet, as `sessionizer page` serves it."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI
from fastapi.responses import FileResponse

from sessionizer.page.app import COOKIE, LOOPBACK, create_page_alone, listen
from support.processes.fabricated_fleet import fabricate, keep_beating
from support.processes.fabricated_platform import Platform

TOKEN = "a-token-of-the-test"  # noqa: S105 - of the test
ENTERED = {"cookie": f"{COOKIE}={TOKEN}"}


def ask(
    platform: Platform, path: str, *, host: str = "127.0.0.1:80", headers: dict[str, str] | None = None
) -> httpx.Response:
    return ask_application(create_page_alone(platform.home, platform.streams, TOKEN), path, host=host, headers=headers)


def ask_application(
    app: FastAPI, path: str, *, host: str = "127.0.0.1:80", headers: dict[str, str] | None = None
) -> httpx.Response:
    async def call() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=f"http://{host}") as client:
            return await client.get(path, headers=headers or {})

    return asyncio.run(call())


@dataclass(frozen=True)
class ServedPage:
    address: str
    platform: Platform
    server: uvicorn.Server
    silent: set[str] = field(default_factory=set)
    """Streams whose drivers do not beat any more."""

    @property
    def entrance(self) -> str:
        return f"{self.address}/?token={TOKEN}"


@contextmanager
def serve_fleet(folder: Path) -> Iterator[ServedPage]:
    """Serve a stream in each state from this process until the block ends."""
    (folder / "specs").mkdir(parents=True)
    platform = Platform(folder / "home", folder / "specs")
    fabricate(platform)
    with serve(platform) as page:
        yield page


def script(name: str) -> FileResponse:
    return FileResponse(Path(__file__).parent / Path(name).name, media_type="text/javascript")


@contextmanager
def serve(platform: Platform) -> Iterator[ServedPage]:
    """Serve the page over ``platform``, whose working drivers beat, from this process until the block ends."""
    socket = listen(0)
    port = socket.getsockname()[1]
    app = create_page_alone(platform.home, platform.streams, TOKEN)
    app.get("/tests/{name}")(script)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    page = ServedPage(f"http://{LOOPBACK}:{port}", platform, server)
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(1):
            keep_beating(platform, page.silent)

    threads = [threading.Thread(target=server.run, kwargs={"sockets": [socket]}), threading.Thread(target=beat)]
    for thread in threads:
        thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        yield page
    finally:
        server.should_exit = True
        ended.set()
        for thread in threads:
            thread.join()
