"""Clients of the registered clusters: one for each, created on first use and kept; it reconnects automatically.

The database is authoritative for which clusters exist, so that all processes of the control plane agree; clients can be recreated any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from isthmus_client.admin import cluster as cluster_admin
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_model.endpoints import Endpoint, parse_bootstrap
from isthmus_model.regions import region_of
from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import WireError

from isthmus_api.clusters.probes import Probes
from isthmus_api.clusters.reachable_client import ReachableClient
from isthmus_api.core.inventory import ClusterKind, RegisteredCluster
from isthmus_api.limits import CLUSTER_CALLS_MAX, CLUSTER_SECONDS, OPERATION_SECONDS
from isthmus_api.problems import CLUSTER_UNREACHABLE, Problem, problem_of
from isthmus_api.store.inventory import Inventory

_CLIENT_ID = "isthmus-api"


@dataclass(slots=True)
class _Connected:
    cluster: RegisteredCluster
    client: ReachableClient
    calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CLUSTER_CALLS_MAX))


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """The id, kind and regions of a cluster, as it reports them."""

    cluster_id: str
    kind: ClusterKind
    regions: tuple[str, ...]


class Clusters:
    """`use` a cluster within the block."""

    def __init__(self, inventory: Inventory, probes: Probes) -> None:
        self._inventory = inventory
        self._probes = probes
        self._connected: dict[str, _Connected] = {}
        probes.on_change.append(self._changed)

    async def registered(self, cluster_id: str) -> RegisteredCluster:
        """The registered cluster; raises Problem when there is none."""
        cluster = await self._inventory.cluster(cluster_id)
        if cluster is None:
            self.forget(cluster_id)
            raise Problem(404, f"Cluster {cluster_id} cannot be found.")
        return cluster

    @asynccontextmanager
    async def use(self, cluster_id: str, seconds: float = CLUSTER_SECONDS) -> AsyncIterator[Client]:
        """The cluster's client within the block. Its errors, and a block that takes too long, become a Problem."""
        cluster = await self.registered(cluster_id)
        connected = self._connect(cluster)
        try:
            async with asyncio.timeout(seconds), connected.calls:
                await _check_identity(connected)
                yield connected.client
        except ClientError as error:
            raise problem_of(error, cluster.name) from error
        except WireError as error:
            raise Problem(502, f"Cluster {cluster.name} sent a response that cannot be decoded: {error}") from error
        except TimeoutError as error:
            message = f"Cluster {cluster.name} did not respond within {seconds:.0f} s."
            raise Problem(503, message, CLUSTER_UNREACHABLE) from error

    async def client(self, cluster_id: str) -> Client:
        """The cluster's client, for background work that handles errors itself; raises Problem when the cluster is not registered."""
        return self._connect(await self.registered(cluster_id)).client

    def _connect(self, cluster: RegisteredCluster) -> _Connected:
        connected = self._connected.get(cluster.cluster_id)
        if connected is not None and connected.cluster.bootstrap_servers == cluster.bootstrap_servers:
            return connected
        self.forget(cluster.cluster_id)
        client = ReachableClient(
            parse_bootstrap(cluster.bootstrap_servers),
            self._probes.is_unreachable,
            client_id=_CLIENT_ID,
            operation_seconds=OPERATION_SECONDS,
        )
        connected = self._connected[cluster.cluster_id] = _Connected(cluster, client)
        return connected

    def _changed(self, address: Endpoint) -> None:
        if self._probes.is_unreachable(address):
            for connected in self._connected.values():
                connected.client.disconnect(address)

    def forget(self, cluster_id: str) -> None:
        """Close the client of a cluster."""
        connected = self._connected.pop(cluster_id, None)
        if connected is not None:
            connected.client.close()

    def close(self) -> None:
        """Close all clients and stop probing."""
        self._probes.close()
        for cluster_id in list(self._connected):
            self.forget(cluster_id)


async def _check_identity(connected: _Connected) -> None:
    """Raise Problem when another cluster responds at the addresses: addresses are reused, and requests must not reach the wrong cluster."""
    client, cluster = connected.client, connected.cluster
    view = await client.retry("find the cluster", lambda: client.metadata_of(()))
    if view.cluster_id != cluster.cluster_id:
        message = f"Another cluster ({view.cluster_id}) responds at {cluster.bootstrap_servers}, not {cluster.name}."
        raise Problem(503, message, CLUSTER_UNREACHABLE)


async def identify(name: str, bootstrap_servers: str) -> ClusterIdentity:
    """Look up the identity of the cluster at these addresses; raises Problem when it cannot be reached."""
    try:
        client = Client(parse_bootstrap(bootstrap_servers), client_id=_CLIENT_ID, operation_seconds=OPERATION_SECONDS)
    except ValueError as error:
        raise Problem(422, f"body.bootstrap_servers: {error}") from error
    try:
        async with asyncio.timeout(CLUSTER_SECONDS), client:
            return await _identity(client)
    except (ClientError, WireError, TimeoutError, OSError) as error:
        why = str(error) or "no response in time"
        raise Problem(
            503, f"Cluster {name} cannot be reached at {bootstrap_servers}: {why}", CLUSTER_UNREACHABLE
        ) from error


async def _identity(client: Client) -> ClusterIdentity:
    described = await cluster_admin.describe(client)
    versions = (await client.any_connection()).versions
    kind = ClusterKind.ISTHMUS if versions.supports(ApiKey.DESCRIBE_REPLICAS) else ClusterKind.KAFKA
    regions = {region for broker in described.brokers if (region := region_of(broker.rack))}
    return ClusterIdentity(described.cluster_id, kind, tuple(sorted(regions)))
