"""A topology as `isthmus up` runs it, by its commands alone."""

import os
import subprocess
from pathlib import Path
from typing import Final

from tests.process import ISTHMUS
from tests.system.stretched import free_base

SECONDS: Final = 180


def with_console(text: str, port: int) -> str:
    """A topology whose control plane listens on this port."""
    assert "[control_plane]" in text
    return text.replace("[control_plane]", f'[control_plane]\nlisten = "127.0.0.1:{port}"')


def two_regions(cluster: str, *, west_brokers: int, latency_ms: int) -> str:
    """A topology's text up to its first topics: a cluster stretched over west and east, its only voter in the west."""
    return f"""
regions = ["west", "east"]

[[links]]
between = ["west", "east"]
latency_ms = {latency_ms}

[[clusters]]
name = "{cluster}"

[[clusters.nodes]]
region = "west"
brokers = {west_brokers}
voters = 1

[[clusters.nodes]]
region = "east"
brokers = 1
"""


class Site:
    """The command line, with a directory for its topology, on ports that are free."""

    def __init__(self, directory: Path, text: str) -> None:
        self.directory = directory / "site"
        self.file = directory / "topology.toml"
        self.base = free_base(text)
        self.text = f"base_port = {self.base}\n{text}"
        self.file.write_text(self.text)

    def run(self, *arguments: str, given: str = "", status: int = 0) -> str:
        """What it prints; with another status than 0 what it complains."""
        finished = subprocess.run(
            [ISTHMUS, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "ISTHMUS_TOPOLOGY_DIR": str(self.directory), "COLUMNS": "200"},
            check=False,
        )
        assert finished.returncode == status, (arguments, finished.stdout, finished.stderr)
        return finished.stderr if status else finished.stdout

    def up(self) -> str:
        """Start everything, or what is missing of it."""
        return self.run("up", str(self.file))

    def down(self) -> None:
        """End everything, and leave nothing."""
        if self.directory.exists():
            self.run("down", "--purge")
