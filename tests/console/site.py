"""What the browser looks at: two regions, a cluster stretched over both, a copy of its topics in one of them, the control plane."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.node import ISTHMUS, free_ports
from tests.system.stretched import free_base

SECONDS: Final = 180
TOPOLOGY: Final = """
regions = ["west", "east"]

[[links]]
between = ["west", "east"]
latency_ms = 5

[[clusters]]
name = "main"

[[clusters.nodes]]
region = "west"
brokers = 1
voters = 1

[[clusters.nodes]]
region = "east"
brokers = 1

[[clusters.topics]]
name = "orders"
partitions = 2

[clusters.topics.placement]
version = 2
replicas = [{ count = 1, constraints = { region = "west" } }]
observers = [{ count = 1, constraints = { region = "east" } }]
observerPromotionPolicy = "under-min-isr"

[[clusters.topics]]
name = "payments"
partitions = 1
replication_factor = 1

[[clusters]]
name = "copy"

[[clusters.nodes]]
region = "east"
brokers = 1
voters = 1

[[linkers]]
cluster = "copy"
region = "east"

[[cluster_links]]
name = "from-main"
from = "main"
to = "copy"
topics = ["orders", "payments"]

[control_plane]
region = "west"

[places.west]
title = "Ireland"
latitude = 53.35
longitude = -6.26
"""


class Site:
    """The command line of a topology that runs, and the way into its console."""

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._directory = directory / "site"
        self._file = directory / "topology.toml"
        text = TOPOLOGY.replace("[control_plane]", f'[control_plane]\nlisten = "127.0.0.1:{port}"')
        self._file.write_text(f"base_port = {free_base(text)}\n{text}")

    @property
    def key(self) -> str:
        """The admin key."""
        return (self._directory / "admin-key").read_text().strip()

    def run(self, *arguments: str, given: str = "") -> str:
        """What a command prints."""
        finished = subprocess.run(
            [ISTHMUS, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "ISTHMUS_TOPOLOGY_DIR": str(self._directory)},
            check=False,
        )
        assert finished.returncode == 0, (arguments, finished.stdout, finished.stderr)
        return finished.stdout

    def up(self) -> None:
        """Start everything."""
        self.run("up", str(self._file))

    def down(self) -> None:
        """End everything, and leave nothing."""
        if self._directory.exists():
            self.run("down", "--purge")

    def bootstrap(self, cluster: str, region: str) -> str:
        """A cluster's brokers, as a region reaches them."""
        overview = json.loads(self.run("status", "-o", "json"))
        return next(
            str(row["bootstrap"]) for row in overview["regions"] if (row["cluster"], row["region"]) == (cluster, region)
        )

    def produce(self, cluster: str, topic: str, records: int) -> None:
        """Records of a cluster's topic, written in the east."""
        lines = "".join(f"record-{number}\n" for number in range(records))
        self.run("produce", topic, "-b", self.bootstrap(cluster, "east"), given=lines)


@contextmanager
def running_site(directory: Path) -> Iterator[Site]:
    """A site that ends with the block."""
    site = Site(directory)
    try:
        site.up()
        yield site
    finally:
        site.down()
