"""Check of ``docker/.env`` before the stack starts, and its secrets, each made once."""

from __future__ import annotations

import base64
import json
import re
import secrets
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE: Final = Path(__file__).absolute().parent
IMAGE: Final = (r"[\w][\w./:@-]*", "the name of an image, such as postgres:16")
PORT: Final = (r"[1-9]\d{3,4}", "a port from 1024 on")
MEMORY: Final = (r"[1-9]\d*[mg]", "memory, such as 2g")
FOLDER: Final = (r"[/.].*", "a path that begins with / or .")
RULES: Final[Mapping[str, tuple[str, str]]] = {
    "COMPOSE_PROJECT_NAME": (r"[a-z0-9][a-z0-9_-]*", "small letters, digits, - and _"),
    "COMPOSE_FILE": (
        r"compose\.yaml(:compose\.metrics\.yaml)?",
        "compose.yaml, or compose.yaml:compose.metrics.yaml",
    ),
    "AIRFLOW_IMAGE": IMAGE,
    "DRIVER_IMAGE": IMAGE,
    "POSTGRES_IMAGE": IMAGE,
    "KAFKA_IMAGE": IMAGE,
    "S3_IMAGE": IMAGE,
    "PROMETHEUS_IMAGE": IMAGE,
    "BASE_IMAGE": IMAGE,
    "GO_IMAGE": IMAGE,
    "AIRFLOW_PORT": PORT,
    "KAFKA_PORT": PORT,
    "S3_PORT": PORT,
    "PROMETHEUS_PORT": PORT,
    "DAGS": FOLDER,
    "STREAMS": FOLDER,
    "WORKER_CORES": (r"[1-9]\d*", "a number of cores"),
    "WORKER_MEMORY": MEMORY,
    "WORKER_LIMIT": MEMORY,
    "SCHEDULER_LIMIT": MEMORY,
}
SECRETS: Final[Mapping[str, Callable[[], str]]] = {
    "postgres_password": lambda: secrets.token_urlsafe(18),
    "fernet_key": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    "jwt_secret": lambda: secrets.token_urlsafe(64),
    "api_secret_key": lambda: secrets.token_urlsafe(32),
    "aws_credentials": lambda: (
        f"[default]\naws_access_key_id = sessionizer\naws_secret_access_key = {secrets.token_hex(18)}\n"
    ),
    "passwords.json": lambda: json.dumps({"admin": secrets.token_urlsafe(12)}),
}


def problems_in(text: str) -> list[str]:
    """Return a line for each problem of the settings ``text``: what is wrong, then what to do."""
    given, found = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        name, sign, value = line.strip().partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not sign:
            found.append(f"line {number} is {line!r}: write NAME=value")
        elif name not in RULES:
            found.append(f"line {number} sets {name}, which nothing reads: remove it, or correct the name")
        else:
            given[name] = value
    for name, (pattern, wanted) in RULES.items():
        if name not in given:
            found.append(f"{name} is not set: copy its line from .env.example")
        elif not re.fullmatch(pattern, given[name]):
            found.append(f"{name} is {given[name]!r}: give {wanted}")
    return found


def make_secrets(folder: Path) -> None:
    """Make each secret that is missing. Only our user can enter the folder, and containers read the files."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, make in SECRETS.items():
        if not (folder / name).exists():
            (folder / name).write_text(make())


def main() -> int:
    """Return 0 if the stack can start."""
    settings = HERE / ".env"
    if not settings.exists():
        shutil.copyfile(HERE / ".env.example", settings)
    found = problems_in(settings.read_text())
    for line in found:
        sys.stderr.write(f"docker/.env: {line}\n")
    if not found:
        make_secrets(HERE / "secrets")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
