"""What the browser looks at: two regions, a cluster stretched over both, a copy of its topics in one of them, the control plane."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.ports import free_ports
from tests.system import site

TOPOLOGY: Final = (
    site.two_regions("main", west_brokers=1, latency_ms=5)
    + """
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
)


class Site(site.Site):
    """This topology, and the way into its console."""

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        super().__init__(directory, site.with_console(TOPOLOGY, port))
        self.url = f"http://127.0.0.1:{port}"

    @property
    def key(self) -> str:
        """The admin key."""
        return (self.directory / "admin-key").read_text().strip()

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
    running = Site(directory)
    try:
        running.up()
        yield running
    finally:
        running.down()
