"""A real PostgreSQL from the jar of ``.jars/postgres``: loopback only, in a directory of its own, with a password."""

import os
import pwd
import secrets
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Self

from support.places import REPOSITORY
from support.processes.ports import free_ports

_NOBODY = "nobody"
"""Who runs it where the tests are root's: PostgreSQL refuses to be."""


class PostgresServer:
    """Starts on entering the context, stops on leaving it. Raises FileNotFoundError without the jar."""

    user = "reader"

    def __init__(self) -> None:
        self.password = secrets.token_hex(8)
        self._root = Path(tempfile.mkdtemp(prefix="postgres-of-tests-"))
        (self.port,) = free_ports(1)

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def __enter__(self) -> Self:
        jars = list((REPOSITORY / ".jars" / "postgres").glob("embedded-postgres-binaries-*.jar"))
        if not jars:
            raise FileNotFoundError("no PostgreSQL in .jars/postgres: run `make jars`")
        with zipfile.ZipFile(jars[0]) as jar, jar.open("postgres-linux-x86_64.txz") as archive:
            tarfile.open(fileobj=archive, mode="r:xz").extractall(self._root / "postgres")  # noqa: S202  made by us
        (self._root / "password").write_text(self.password)
        if os.geteuid() == 0:
            for path in (self._root, *self._root.rglob("*")):
                shutil.chown(path, _NOBODY, pwd.getpwnam(_NOBODY).pw_gid)
        self._run(
            "initdb", "--username", self.user, "--auth", "scram-sha-256", "--pwfile", str(self._root / "password")
        )
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        self._run("pg_ctl", "--log", str(self._root / "log"), "--wait", "-o", options, "start")
        return self

    def __exit__(self, *_: object) -> None:
        self._run("pg_ctl", "--mode", "immediate", "--wait", "stop")
        shutil.rmtree(self._root)

    def _run(self, program: str, *arguments: str) -> None:
        argv = [str(self._root / "postgres" / "bin" / program), "--pgdata", str(self._root / "data"), *arguments]
        log = (self._root / f"{program}.log").open("ab")
        user = _NOBODY if os.geteuid() == 0 else None
        with log:
            subprocess.run(argv, check=True, timeout=120, user=user, stdout=log, stderr=log, cwd=self._root)
