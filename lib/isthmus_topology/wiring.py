"""Create the cluster links with their mirror topics, and register everything in the control plane."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from isthmus_client.admin.links import create_link, describe_links
from isthmus_client.admin.mirrors import create_mirror, describe_mirrors
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_model.endpoints import parse_bootstrap

from isthmus_topology.reading import TopologyRefused
from isthmus_topology.service_plan import API

if TYPE_CHECKING:
    from isthmus_topology.processes import Site
    from isthmus_topology.services import ClusterLink

KEY_FILE: Final = "admin-key"
_SECONDS: Final = 60.0
_CONFLICT: Final = 409


def make_links(site: Site) -> None:
    """Create missing links with their mirror topics; raises TopologyRefused."""
    for link in site.topology.services.cluster_links:
        try:
            asyncio.run(_make_link(site, link))
        except (ClientError, OSError) as error:
            raise TopologyRefused(f"cluster link {link.name}: {error}") from error


async def _make_link(site: Site, link: ClusterLink) -> None:
    """Create a link; the destination's brokers and workers connect to the source from their own region."""
    destination = parse_bootstrap(site.plan.bootstrap(link.destination))
    region = next(node.region for node in site.plan.nodes if node.cluster == link.destination and node.is_broker)
    source = site.plan.bootstrap(link.source, region)
    async with Client(destination, client_id="isthmus-up", operation_seconds=_SECONDS) as client:
        if link.name not in {existing.name for existing in await describe_links(client)}:
            await create_link(client, link.name, {"bootstrap.servers": source, **link.config})
        mirrored = {mirror.source_topic for mirror in await describe_mirrors(client, link=link.name)}
        for topic in link.topics:
            if topic not in mirrored:
                await create_mirror(client, link.name, topic)


def register(site: Site) -> None:
    """Register missing regions, clusters and services in the control plane; raises TopologyRefused."""
    plane = ControlPlane(site)
    for name, place in site.topology.services.places.items():
        at = {"title": place.title, "latitude": place.latitude, "longitude": place.longitude}
        plane.request("PUT", f"/api/v1/regions/{name}", at)
    region = site.topology.services.control_plane.region if site.topology.services.control_plane else None
    for cluster in site.topology.clusters:
        bootstrap = site.plan.bootstrap(cluster.name, region)
        plane.request("POST", "/api/v1/clusters", {"name": cluster.name, "bootstrap_servers": bootstrap})
    for service in site.plan.services:
        if service.http is not None and service.kind != API:
            entry = {"name": service.name, "kind": service.kind, "region": service.region}
            plane.request("POST", "/api/v1/services", {**entry, "metrics_url": f"http://{service.http}/metrics"})


class ControlPlane:
    """A client of the control plane of a site, with the admin key."""

    def __init__(self, site: Site) -> None:
        api = next((service for service in site.plan.services if service.name == API), None)
        if api is None:
            raise TopologyRefused("this topology has no control plane")
        self.address = f"http://{api.http}"
        self.key_file = site.directory / KEY_FILE

    @property
    def key(self) -> str:
        """The admin key, created by the control plane at its first start."""
        return _read_key(self.key_file)

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the response, or None on a conflict with an existing entry; raises TopologyRefused."""
        authorization = base64.b64encode(f"admin:{self.key}".encode()).decode()
        headers = {"Authorization": f"Basic {authorization}", "Content-Type": "application/json"}
        request = Request(
            self.address + path, json.dumps(body).encode() if body is not None else None, headers, method=method
        )
        try:
            with urlopen(request, timeout=_SECONDS) as response:
                text = response.read()
        except HTTPError as error:
            if error.code == _CONFLICT:
                return None
            raise TopologyRefused(f"the control plane refused {method} {path}: {error.read().decode()}") from error
        except (URLError, OSError) as error:
            raise TopologyRefused(f"the control plane does not respond at {self.address}: {error}") from error
        return json.loads(text) if text else None


def _read_key(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise TopologyRefused(f"the admin key cannot be read: {error}") from error
