"""The registered clusters' clients: one for each, made when it is first used and kept; it connects again by itself.

The database says which clusters there are, so that all processes of the control plane agree; what is here can be made anew at any moment.
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
from isthmus_api.clusters.reachable_client import WaryClient
from isthmus_api.limits import CLUSTER_CALLS_MAX, CLUSTER_SECONDS, OPERATION_SECONDS
from isthmus_api.problems import CLUSTER_AWAY, Problem, problem_of
from isthmus_api.store.inventory import ClusterKind, Inventory, RegisteredCluster

_CLIENT_ID = "isthmus-api"


@dataclass(slots=True)
class _Connected:
    cluster: RegisteredCluster
    client: WaryClient
    calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CLUSTER_CALLS_MAX))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a cluster says of itself."""

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
        """Raises Problem when it is not there."""
        cluster = await self._inventory.cluster(cluster_id)
        if cluster is None:
            self.forget(cluster_id)
            raise Problem(404, f"Cluster {cluster_id} cannot be found.")
        return cluster

    @asynccontextmanager
    async def use(self, cluster_id: str, seconds: float = CLUSTER_SECONDS) -> AsyncIterator[Client]:
        """Its client; whatever that raises in the block, and a block that takes too long, becomes a Problem."""
        cluster = await self.registered(cluster_id)
        connected = self._connect(cluster)
        try:
            async with asyncio.timeout(seconds), connected.calls:
                await _check_identity(connected)
                yield connected.client
        except ClientError as error:
            raise problem_of(error, cluster.name) from error
        except WireError as error:
            raise Problem(502, f"Cluster {cluster.name} answers what cannot be read: {error}") from error
        except TimeoutError as error:
            message = f"Cluster {cluster.name} did not answer within {seconds:.0f} s."
            raise Problem(503, message, CLUSTER_AWAY) from error

    async def client(self, cluster_id: str) -> Client:
        """For work that goes on by itself and takes its errors as they come; raises Problem when the cluster is not registered."""
        return self._connect(await self.registered(cluster_id)).client

    def _connect(self, cluster: RegisteredCluster) -> _Connected:
        found = self._connected.get(cluster.cluster_id)
        if found is not None and found.cluster.bootstrap_servers == cluster.bootstrap_servers:
            return found
        self.forget(cluster.cluster_id)
        client = WaryClient(
            parse_bootstrap(cluster.bootstrap_servers),
            self._probes.is_away,
            client_id=_CLIENT_ID,
            operation_seconds=OPERATION_SECONDS,
        )
        made = _Connected(cluster, client)
        self._connected[cluster.cluster_id] = made
        return made

    def _changed(self, address: Endpoint) -> None:
        if self._probes.is_away(address):
            for connected in self._connected.values():
                connected.client.lost(address)

    def forget(self, cluster_id: str) -> None:
        """Close what leads to a cluster."""
        connected = self._connected.pop(cluster_id, None)
        if connected is not None:
            connected.client.close()

    def close(self) -> None:
        """Close everything, and probe nobody any more."""
        self._probes.close()
        for cluster_id in list(self._connected):
            self.forget(cluster_id)


async def _check_identity(connected: _Connected) -> None:
    """Addresses are reused: another cluster may answer there now, and nothing that was meant for the one may reach the other."""
    client, cluster = connected.client, connected.cluster
    view = await client.retry("find the cluster", lambda: client.metadata_of(()))
    if view.cluster_id != cluster.cluster_id:
        message = f"Another cluster ({view.cluster_id}) answers at {cluster.bootstrap_servers}, not {cluster.name}."
        raise Problem(503, message, CLUSTER_AWAY)


async def look_at(name: str, bootstrap_servers: str) -> Seen:
    """Ask a cluster who it is; raises Problem when nobody answers there."""
    try:
        client = Client(parse_bootstrap(bootstrap_servers), client_id=_CLIENT_ID, operation_seconds=OPERATION_SECONDS)
    except ValueError as error:
        raise Problem(422, f"body.bootstrap_servers: {error}") from error
    try:
        async with asyncio.timeout(CLUSTER_SECONDS), client:
            return await see(client)
    except (ClientError, WireError, TimeoutError, OSError) as error:
        why = str(error) or "no answer in time"
        raise Problem(503, f"Cluster {name} cannot be reached at {bootstrap_servers}: {why}", CLUSTER_AWAY) from error


async def see(client: Client) -> Seen:
    """Who a cluster is, and the regions that its brokers' racks name."""
    described = await cluster_admin.describe(client)
    versions = (await client.any_connection()).versions
    kind = ClusterKind.ISTHMUS if versions.supports(ApiKey.DESCRIBE_REPLICAS) else ClusterKind.KAFKA
    regions = {region for broker in described.brokers if (region := region_of(broker.rack))}
    return Seen(described.cluster_id, kind, tuple(sorted(regions)))
