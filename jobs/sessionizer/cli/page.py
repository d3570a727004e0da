"""``sessionizer page``: the Streams page on this machine, without Airflow."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import typer

from sessionizer.cli.places import Home, Streams, home_folder, specs_folder
from sessionizer.cli.terminal import say
from sessionizer.errors import InvalidSpec


def page(
    *,
    port: Annotated[int, typer.Option(help="Port on the loopback interface. 0: a free one.", min=0, max=65535)] = 0,
    streams: Streams = None,
    home: Home = None,
) -> None:
    """Serve the Streams page on this machine. The address that it prints has the token that lets a browser in."""
    try:
        import uvicorn  # noqa: PLC0415  fast --help

        from sessionizer.page.alone import LOOPBACK, create_page_alone, listen  # noqa: PLC0415
    except ImportError as error:
        say(f"error: the page needs the packages fastapi and uvicorn ({error})")
        say("remedy: install them beside sessionizer: `pip install fastapi uvicorn`")
        raise typer.Exit(1) from error

    token = secrets.token_urlsafe(24)
    app: Any = create_page_alone(home_folder(home), specs_folder(streams), token)
    try:
        socket = listen(port)
    except OSError as error:
        raise InvalidSpec("--port", port, f"a free port ({error.strerror})") from error
    typer.echo(f"http://{LOOPBACK}:{socket.getsockname()[1]}/?token={token}")
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[socket])
