"""The control plane as a process, and requests to it."""

import base64
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.process import Process

DEADLINE_SECONDS = 60


class Response(NamedTuple):
    """A response."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Api(Process):
    """One process; `start` again after `kill` or `stop` to see what it makes of its store."""

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        super().__init__(directory / "api.log")
        self.directory = directory
        self.output = ""
        self.port = 0
        self._options = options

    @property
    def key(self) -> str:
        """The admin key, as the file has it."""
        return (self.directory / "admin-key").read_text().strip()

    def start(self) -> None:
        """Start and wait until it serves."""
        self._fork(["api", "--listen", "127.0.0.1:0", "--data-dir", str(self.directory), *self._options])
        self.output = self.await_ready()
        self.port = int(self.output.rpartition(":")[2])

    def send(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Response:
        """A request as it is, without the key."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            sent = None if body is None else json.dumps(body)
            content = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, path, sent, {**content, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            is_json = (response.getheader("Content-Type") or "").startswith("application/json")
            return Response(
                response.status, json.loads(text) if is_json else text.decode(), dict(response.getheaders())
            )
        finally:
            connection.close()

    @property
    def authorization(self) -> dict[str, str]:
        """The header with the admin key."""
        return {"Authorization": "Basic " + base64.b64encode(f"admin:{self.key}".encode()).decode()}

    def request(self, method: str, path: str, body: object = None) -> Response:
        """A request with the admin key."""
        return self.send(method, path, body, self.authorization)

    def get(self, path: str) -> Any:
        """The body of a GET, which must succeed."""
        response = self.request("GET", path)
        assert response.status == 200, response
        return response.body

    def register(self, name: str, bootstrap: str) -> str:
        """A cluster's id, once it is registered."""
        response = self.request("POST", "/api/v1/clusters", {"name": name, "bootstrap_servers": bootstrap})
        assert response.status == 201, response
        cluster_id = response.body["cluster_id"]
        assert isinstance(cluster_id, str)
        return cluster_id

    def await_that(self, path: str, condition: Any) -> Any:
        """Repeat the request until its response satisfies the condition."""
        give_up = time.monotonic() + DEADLINE_SECONDS
        pause = threading.Event()
        while True:
            response = self.request("GET", path)
            if response.status == 200 and condition(response.body):
                return response.body
            assert time.monotonic() < give_up, response
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
