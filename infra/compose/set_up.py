"""Create the topics and the link of the compose file, and register its clusters in the control plane. Existing ones are kept."""

import asyncio
import base64
import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from isthmus_client.admin.links import create_link, describe_links
from isthmus_client.admin.mirrors import create_mirror, describe_mirrors
from isthmus_client.admin.topics import NewTopic, create
from isthmus_client.client import Client
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.errors import ErrorCode

API = "http://api:9190"
ATLANTIC = "eu-west-1:9192,eu-north-1:9392"
REPORTS = "reports-1:9592"
ARCHIVE = "archive-1:9692"
CONFLICT = 409
PLACEMENT = {
    "version": 2,
    "replicas": [
        {"count": 2, "constraints": {"region": "eu-west"}},
        {"count": 1, "constraints": {"region": "eu-north"}},
    ],
    "observers": [{"count": 1, "constraints": {"region": "us-east"}}],
    "observerPromotionPolicy": "under-min-isr",
}
PLACES = {
    "eu-west": ("Ireland", 53.35, -6.26),
    "eu-north": ("Stockholm", 59.33, 18.07),
    "us-east": ("Virginia", 38.95, -77.45),
}
SERVICES = {"linker": ("linker", "us-east"), "mirror": ("mirror", "eu-north"), "balancer": ("balancer", "eu-west")}


async def make_topics() -> None:
    """Create the topics, with observers in the American region."""
    configs = {"isthmus.placement.constraints": json.dumps(PLACEMENT)}
    topics = [NewTopic("orders", 6, configs=configs), NewTopic("payments", 3, configs=configs)]
    async with Client(parse_bootstrap(ATLANTIC), client_id="isthmus-set-up") as client:
        for refused in (await create(client, topics)).values():
            if refused is not None and refused.code is not ErrorCode.topic_already_exists:
                raise refused


async def make_link() -> None:
    """Create the link to the cluster `reports`, and a mirror of `orders`."""
    async with Client(parse_bootstrap(REPORTS), client_id="isthmus-set-up") as client:
        if not await describe_links(client):
            settings = {"bootstrap.servers": ATLANTIC, "consumer.offset.sync.enable": "true"}
            await create_link(client, "from-atlantic", settings)
        if not await describe_mirrors(client):
            await create_mirror(client, "from-atlantic", "orders")


def register(method: str, path: str, body: object) -> None:
    """Send a request to the control plane; ignores conflicts with existing entries."""
    key = Path("/data/admin-key").read_text().strip()
    authorization = "Basic " + base64.b64encode(f"admin:{key}".encode()).decode()
    headers = {"Authorization": authorization, "Content-Type": "application/json"}
    try:
        urlopen(Request(API + path, json.dumps(body).encode(), headers, method=method), timeout=60).close()
    except HTTPError as error:
        if error.code != CONFLICT:
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from error


def main() -> None:
    """Set everything up in the order of the dependencies."""
    asyncio.run(make_topics())
    asyncio.run(make_link())
    for name, (title, latitude, longitude) in PLACES.items():
        register("PUT", f"/api/v1/regions/{name}", {"title": title, "latitude": latitude, "longitude": longitude})
    for name, bootstrap in (("atlantic", ATLANTIC), ("reports", REPORTS), ("archive", ARCHIVE)):
        register("POST", "/api/v1/clusters", {"name": name, "bootstrap_servers": bootstrap})
    for name, (kind, region) in SERVICES.items():
        service = {"name": name, "kind": kind, "region": region, "metrics_url": f"http://{name}:9190/metrics"}
        register("POST", "/api/v1/services", service)


if __name__ == "__main__":
    main()
