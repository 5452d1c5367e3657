"""A worker of Kafka Connect in distributed mode, with exactly-once sources, as a process."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.kafka import HOME
from tests.ports import free_ports
from tests.process import Process
from tests.system.ledger import wait_until

GROUP: Final = "connect"
_RESPONSE_SECONDS: Final = 60


class Worker(Process):
    """Start it again after `kill`: its connectors are in the cluster's topics."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        super().__init__(directory / "connect.log")
        (self._port,) = free_ports(1)
        self._properties = directory / "connect.properties"
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "listeners": f"http://127.0.0.1:{self._port}",
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "service_load",
            # A member that was killed leaves after its session, and its tasks are assigned at once.
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        for topic in ("config", "offset", "status"):
            settings[f"{topic}.storage.topic"] = f"{GROUP}-{topic}"
            settings[f"{topic}.storage.replication.factor"] = "1"
            if topic != "config":
                settings[f"{topic}.storage.partitions"] = "2"
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(self) -> None:
        """Start it, and wait until it serves requests."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}
        self._spawn([HOME / "bin" / "connect-distributed.sh", self._properties], environment, prints_ready=False)
        wait_until(self._responds, "Connect to serve requests", lambda: self.log()[-2000:])

    def configure(self, connector: str, settings: Mapping[str, str]) -> None:
        """Create a connector, or change it. It is refused while the workers rebalance."""
        wait_until(lambda: self._configured(connector, settings), f"Connect to take the connector {connector}")

    def _configured(self, connector: str, settings: Mapping[str, str]) -> bool:
        try:
            self._request("PUT", f"/connectors/{connector}/config", settings)
        except urllib.error.HTTPError as refused:
            if refused.code in (409, 500):  # a rebalance, or a request that timed out
                return False
            raise
        return True

    def _responds(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()[-4000:]
        try:
            self._request("GET", "/connectors")
        except (OSError, urllib.error.HTTPError):
            return False
        return True

    def _request(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=_RESPONSE_SECONDS) as response:
            return json.load(response)
