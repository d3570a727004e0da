"""An S3 server of one process: ``python -m support.stores.s3_server PORT``. It answers one request after another.

moto looks whether an object is there and puts it in two steps, between which another thread may come; a server whose
conditional puts are atomic, as those of S3 are, takes one at a time.
"""

import io
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def one_at_a_time(application: Application) -> Application:
    """The application, entered by one thread at a time, which has the whole request. So no frozen client blocks it."""
    lock = threading.Lock()

    def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        whole = environment.get("wsgi.input_terminated")
        body = environment["wsgi.input"]
        content = body.read() if whole else body.read(int(environment.get("CONTENT_LENGTH") or 0))
        with lock:
            return application({**environment, "wsgi.input": io.BytesIO(content)}, start)

    return answer


if __name__ == "__main__":
    application = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time(application), threaded=True)
