"""A PostgreSQL server in a temporary directory; it runs as an unprivileged user, for it refuses to run as root."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_ports

START_SECONDS = 60
STOP_SECONDS = 60
_UNPRIVILEGED = "nobody"


def _program(name: str) -> str:
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = str(debian[-1]) if debian else shutil.which(name)
    assert found is not None, f"{name} is missing: scripts/debian-packages stores installs it"
    return found


def _as_nobody() -> list[str]:
    if os.getuid() != 0:
        return []
    user = pwd.getpwnam(_UNPRIVILEGED)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _await_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    pause = threading.Event()
    for _ in range(START_SECONDS * 20):
        asked = subprocess.run(
            [_program("pg_isready"), "-h", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, check=False
        )
        if asked.returncode == 0:
            return
        assert process.poll() is None, "PostgreSQL did not start"
        pause.wait(0.05)
    raise TimeoutError(f"PostgreSQL does not respond on port {port}")


@contextmanager
def running_postgres() -> Iterator[str]:
    """The URL of a database that ends with the block."""
    directory = Path(tempfile.mkdtemp(prefix="isthmus-postgres-"))
    try:
        if os.getuid() == 0:
            shutil.chown(directory, _UNPRIVILEGED)
        data = directory / "data"
        settings = ["--username=isthmus", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        initdb = [*_as_nobody(), _program("initdb"), "-D", str(data), *settings]
        subprocess.run(initdb, check=True, cwd=directory, stdout=subprocess.DEVNULL)
        (port,) = free_ports(1)
        options = ["-p", str(port), "-k", str(directory), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        with (directory / "log").open("wb") as log:
            command = [*_as_nobody(), _program("postgres"), "-D", str(data), *options]
            process = subprocess.Popen(command, cwd=directory, stdout=log, stderr=log)
        try:
            _await_ready(port, process)
            yield f"postgresql://isthmus@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_SECONDS)
    finally:
        shutil.rmtree(directory)
