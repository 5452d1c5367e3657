"""What a handler gets besides the request's arguments: the parts of the running control plane, and the request's user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web
from isthmus_model.clocks import WallClock

from isthmus_api.clusters.clients import Clusters
from isthmus_api.clusters.lag_feed import LagFeed
from isthmus_api.clusters.watcher import Watch
from isthmus_api.events import Hub
from isthmus_api.security.authentication import Authenticator
from isthmus_api.store.audit import Audit
from isthmus_api.store.inventory import Inventory
from isthmus_api.store.work import Work
from isthmus_api.tasks.runner import Runner

KAFKA_V3: Final = "/kafka/v3"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the running control plane."""

    inventory: Inventory
    audit: Audit
    work: Work
    clusters: Clusters
    door: Authenticator
    hub: Hub
    lag: LagFeed
    watch: Watch
    runner: Runner
    now_ms: WallClock
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    parts: Parts
    request: web.Request
    actor: str

    def url(self, *path: object) -> str:
        """The URL, as this client sees it, of a resource under /kafka/v3."""
        parts = "/".join(quote(str(part), safe="-:") for part in path)
        return f"{self.request.scheme}://{self.request.host}{KAFKA_V3}/{parts}"

    @property
    def self_url(self) -> str:
        """The URL of this request, without its query."""
        return f"{self.request.scheme}://{self.request.host}{self.request.rel_url.raw_path}"
