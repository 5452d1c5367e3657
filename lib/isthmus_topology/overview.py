"""The status of a topology: its processes, the replicas of each broker, the lag of each region, and the network links."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from isthmus_client.admin.replicas import PartitionStatus, ReplicaStatus, replica_status
from isthmus_client.admin.topics import list_topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_model.endpoints import parse_bootstrap

from isthmus_topology.plan import ServicePlan
from isthmus_topology.processes import Site
from isthmus_topology.reading import TopologyRefused
from isthmus_topology.wan.control import send_request

RESPONSE_SECONDS: Final = 5.0
"""Timeout after which a cluster is shown without its partitions."""


@dataclass(slots=True)
class Overview:
    """Rows of the tables and the JSON."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    services: list[dict[str, Any]] = field(default_factory=list)
    regions: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Partitions:
    """The partitions of a cluster whose status is available."""

    count: int = 0
    leaderless: int = 0
    unreported: int = 0
    statuses: tuple[PartitionStatus, ...] = ()

    def replicas(self) -> Iterable[tuple[ReplicaStatus, int]]:
        """Each replica with its lag in records."""
        for status in self.statuses:
            end = max((replica.log_end for replica in status.replicas if replica.is_leader), default=0)
            for replica in status.replicas:
                yield replica, max(0, end - max(replica.log_end, 0))


def observe(site: Site) -> Overview:
    """Observe the current status; what is unavailable is listed in `troubles`."""
    overview = Overview()
    for cluster in site.topology.clusters:
        partitions = _Partitions()
        try:
            partitions = asyncio.run(_query(site, cluster.name))
        except (ClientError, OSError, TimeoutError) as error:
            overview.troubles.append(f"cluster {cluster.name} does not respond: {error or 'timed out'}")
        if partitions.leaderless:
            overview.troubles.append(
                f"cluster {cluster.name}: no leader for {partitions.leaderless} of {partitions.count} partitions"
            )
        if partitions.unreported:
            overview.troubles.append(
                f"cluster {cluster.name}: no report from the leaders of {partitions.unreported} of {partitions.count} "
                "partitions; their replicas are not counted"
            )
        overview.nodes += _nodes(site, cluster.name, partitions)
        overview.regions += _regions(site, cluster.name, partitions)
    overview.services = [_service(site, service) for service in site.plan.services]
    if site.plan.relays:
        try:
            overview.links = send_request(site.control, {"op": "state"})
        except TopologyRefused as refusal:
            overview.troubles.append(str(refusal))
    return overview


async def _query(site: Site, cluster: str) -> _Partitions:
    """Query a region with running brokers, so that an unreachable region does not hide the others."""
    alive = [n for n in site.plan.nodes if n.cluster == cluster and n.is_broker and site.state_of(n.name) == "running"]
    if not alive:
        return _Partitions()
    bootstrap = parse_bootstrap(site.plan.bootstrap(cluster, alive[0].region))
    async with asyncio.timeout(RESPONSE_SECONDS):
        async with Client(bootstrap, client_id="isthmus-status", operation_seconds=RESPONSE_SECONDS) as client:
            topics = await list_topics(client)
            led = [
                (TopicPartition(topic.name, index), partition.leader)
                for topic in topics.values()
                for index, partition in topic.partitions.items()
            ]
            with_leader = [partition for partition, leader in led if leader >= 0]
            results = await replica_status(client, with_leader)
    statuses = tuple(status for status in results.values() if isinstance(status, PartitionStatus))
    return _Partitions(
        count=len(led),
        leaderless=len(led) - len(with_leader),
        unreported=len(results) - len(statuses),
        statuses=statuses,
    )


def _service(site: Site, service: ServicePlan) -> dict[str, Any]:
    return {
        "service": service.name,
        "kind": service.kind,
        "region": service.region,
        **_process(site, service.name),
        "http": service.http or "",
    }


def _process(site: Site, name: str) -> dict[str, Any]:
    process = site.processes.get(name)
    return {
        "state": site.state_of(name),
        "pid": None if process is None else process.pid,
        "mb": None if process is None else process.resident_bytes // 1_000_000,
    }


def _nodes(site: Site, cluster: str, partitions: _Partitions) -> Iterable[dict[str, Any]]:
    leads: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    observes: Counter[int] = Counter()
    for replica, _ in partitions.replicas():
        leads[replica.broker] += replica.is_leader
        in_sync[replica.broker] += replica.is_in_isr
        observes[replica.broker] += replica.is_observer
    for node in site.plan.nodes:
        if node.cluster != cluster:
            continue
        yield {
            "node": node.name,
            "id": node.node_id,
            "rack": node.rack,
            "roles": node.roles,
            **_process(site, node.name),
            "leads": leads[node.node_id],
            "in_sync": in_sync[node.node_id],
            "observes": observes[node.node_id],
        }


def _regions(site: Site, cluster: str, partitions: _Partitions) -> Iterable[dict[str, Any]]:
    region_of = {node.node_id: node.region for node in site.plan.nodes if node.cluster == cluster}
    by_region: dict[str, list[tuple[ReplicaStatus, int]]] = defaultdict(list)
    for replica, lag in partitions.replicas():
        by_region[region_of.get(replica.broker, "unknown")].append((replica, lag))
    for region in site.topology.regions:
        replicas = by_region[region]
        yield {
            "cluster": cluster,
            "region": region,
            "replicas": len(replicas),
            "leaders": sum(replica.is_leader for replica, _ in replicas),
            "in_sync": sum(replica.is_in_isr for replica, _ in replicas),
            "observers": sum(replica.is_observer for replica, _ in replicas),
            "lag": max((lag for _, lag in replicas), default=None),
            "lag_ms": max(
                (replica.caught_up_lag_ms for replica, _ in replicas if replica.caught_up_lag_ms >= 0), default=None
            ),
            "bootstrap": site.plan.bootstrap(cluster, region),
        }
