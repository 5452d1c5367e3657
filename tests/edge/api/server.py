"""The control plane as a process, and requests to it."""

import base64
import http.client
import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.node import ISTHMUS, READY_SECONDS, STOP_SECONDS

DEADLINE_SECONDS = 60


class Answer(NamedTuple):
    """What was answered."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Api:
    """One process; `start` again after `kill` or `stop` to see what it makes of its store."""

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        self.directory = directory
        self.output = ""
        self.port = 0
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def key(self) -> str:
        """The admin key, as the file has it."""
        return (self.directory / "admin-key").read_text().strip()

    def start(self) -> None:
        """Start and wait until it serves."""
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments = ["--listen", "127.0.0.1:0", "--data-dir", str(self.directory), *self._options]
        with (self.directory / "api.log").open("ab") as log:
            self._process = subprocess.Popen(
                [ISTHMUS, "api", *arguments], stdout=subprocess.PIPE, stderr=log, text=True
            )
        give_up = threading.Timer(READY_SECONDS, self._process.kill)
        give_up.start()
        try:
            self.output = self._read_until_ready()
        finally:
            give_up.cancel()

    def _read_until_ready(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        said = ""
        for line in self._process.stdout:
            said += line
            if line.startswith("ready http://127.0.0.1:"):
                self.port = int(line.rpartition(":")[2])
                return said
        self.kill()
        raise AssertionError(f"the control plane did not start:\n{(self.directory / 'api.log').read_text()[-4000:]}")

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and wait; returns the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        finally:
            process.kill()
            if process.stdout is not None:
                process.stdout.close()

    def send(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """A request as it is, without the key."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            sent = None if body is None else json.dumps(body)
            told = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, sent, {**told, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            is_json = (response.getheader("Content-Type") or "").startswith("application/json")
            return Answer(response.status, json.loads(text) if is_json else text.decode(), dict(response.getheaders()))
        finally:
            connection.close()

    @property
    def authorization(self) -> dict[str, str]:
        """The header with the admin key."""
        return {"Authorization": "Basic " + base64.b64encode(f"admin:{self.key}".encode()).decode()}

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        """A request with the admin key."""
        return self.send(method, path, body, self.authorization)

    def get(self, path: str) -> Any:
        """What is there; it must be."""
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def register(self, name: str, bootstrap: str) -> str:
        """A cluster's id, once it is registered."""
        answer = self.ask("POST", "/api/v1/clusters", {"name": name, "bootstrap_servers": bootstrap})
        assert answer.status == 201, answer
        cluster_id = answer.body["cluster_id"]
        assert isinstance(cluster_id, str)
        return cluster_id

    def await_that(self, path: str, condition: Any) -> Any:
        """Ask until what is answered is as it should be."""
        give_up = time.monotonic() + DEADLINE_SECONDS
        pause = threading.Event()
        while True:
            answer = self.ask("GET", path)
            if answer.status == 200 and condition(answer.body):
                return answer.body
            assert time.monotonic() < give_up, answer
            pause.wait(0.05)


@contextmanager
def running_api(directory: Path, options: Sequence[str] = ()) -> Iterator[Api]:
    """A control plane that ends with the block."""
    api = Api(directory, options)
    api.start()
    try:
        yield api
    finally:
        api.stop()
