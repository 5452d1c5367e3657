"""The containers of infra/compose, from a freshly built image, as a project of their own that does not affect a running one."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "infra" / "compose" / "compose.yaml"
PROJECT = "isthmus-test"
UP_SECONDS = 900


class Stack:
    """The compose file as a project of its own."""

    def __init__(self) -> None:
        (self.api_port,) = free_ports(1)

    def compose(self, *arguments: str, status: int = 0, given: str = "") -> str:
        """What `docker compose` prints; ending otherwise is a failure."""
        return self.docker(
            "compose", "--file", str(COMPOSE_FILE), "--project-name", PROJECT, *arguments, status=status, given=given
        )

    def docker(self, *arguments: str, status: int = 0, given: str = "") -> str:
        """What `docker` prints."""
        environment = {**os.environ, "ISTHMUS_API_PORT": str(self.api_port)}
        done = subprocess.run(
            ["docker", *arguments], input=given, capture_output=True, text=True, timeout=UP_SECONDS, env=environment
        )
        assert done.returncode == status, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    def isthmus(self, service: str, *arguments: str, given: str = "") -> str:
        """The command line in a container of a service."""
        return self.compose("exec", "-T", service, "isthmus", *arguments, given=given)

    def container(self, service: str) -> str:
        """Its name."""
        return f"{PROJECT}-{service}-1"

    def leftovers(self) -> list[str]:
        """Containers, networks and volumes of the project."""
        label = f"label=com.docker.compose.project={PROJECT}"
        listed = (
            self.docker("ps", "--all", "--quiet", "--filter", label),
            self.docker("network", "ls", "--quiet", "--filter", label),
            self.docker("volume", "ls", "--quiet", "--filter", label),
        )
        return [line for text in listed for line in text.splitlines()]


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Up and healthy, from nothing; afterwards nothing of it is left."""
    made = Stack()
    made.compose("down", "--volumes", "--remove-orphans")
    try:
        made.compose("build")
        made.compose("up", "--detach", "--wait")
        yield made
    finally:
        made.compose("down", "--volumes", "--remove-orphans")
    assert made.leftovers() == []
