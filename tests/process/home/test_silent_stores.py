"""A store that takes each call and never answers: its client gives up, and the error names the store."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest

from sessionizer.errors import StoreUnreachable
from sessionizer.home import roots
from sessionizer.home.data_files import data_exists
from sessionizer.home.roots import folder_at

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def silent_address() -> Iterator[str]:
    """The address of a server that accepts connections, and neither answers nor closes them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    ("uri", "variable"),
    [
        ("s3://bucket/lake", "AWS_ENDPOINT_URL"),
        # gcsfs waits for half a minute between its tries
        pytest.param("gs://bucket/lake", "STORAGE_EMULATOR_HOST", marks=pytest.mark.long),
    ],
)
def test_a_client_gives_up(uri: str, variable: str, silent_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "of-tests")
    monkeypatch.setenv(variable, silent_address)
    monkeypatch.setattr(roots, "CLIENT_READS_WITHIN_S", 0.2)
    with pytest.raises(StoreUnreachable) as refused:
        data_exists(folder_at(uri))
    assert refused.value.path == uri
