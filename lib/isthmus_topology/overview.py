"""How a topology is doing: its processes, what each broker leads and follows, how far each region is behind, and the links."""

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
from isthmus_topology.wan.control import ask

ANSWER_SECONDS: Final = 5.0
"""A cluster that takes longer is shown without its partitions."""


@dataclass(slots=True)
class Overview:
    """Rows for people and for JSON alike."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    services: list[dict[str, Any]] = field(default_factory=list)
    regions: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Partitions:
    """The partitions of a cluster as far as they could be asked for."""

    leaderless: int = 0
    statuses: tuple[PartitionStatus, ...] = ()

    def replicas(self) -> Iterable[tuple[ReplicaStatus, int]]:
        """Each replica, and how many records it is behind its leader."""
        for status in self.statuses:
            end = max((replica.log_end for replica in status.replicas if replica.is_leader), default=0)
            for replica in status.replicas:
                yield replica, max(0, end - max(replica.log_end, 0))


def look(site: Site) -> Overview:
    """What is there to see now; what cannot be seen is told as a trouble."""
    overview = Overview()
    for cluster in site.topology.clusters:
        partitions = _Partitions()
        try:
            partitions = asyncio.run(_ask(site, cluster.name))
        except (ClientError, OSError, TimeoutError) as error:
            overview.troubles.append(f"cluster {cluster.name} does not answer: {error or 'no answer in time'}")
        if partitions.leaderless:
            overview.troubles.append(f"cluster {cluster.name}: {partitions.leaderless} partitions have no leader")
        overview.nodes += _nodes(site, cluster.name, partitions)
        overview.regions += _regions(site, cluster.name, partitions)
    overview.services = [_service(site, service) for service in site.plan.services]
    if site.plan.relays:
        try:
            overview.links = ask(site.control, {"op": "state"})
        except TopologyRefused as refusal:
            overview.troubles.append(str(refusal))
    return overview


async def _ask(site: Site, cluster: str) -> _Partitions:
    """Asked of a region whose brokers run, so that a dead or distant region does not hide the others."""
    alive = [n for n in site.plan.nodes if n.cluster == cluster and n.is_broker and site.state_of(n.name) == "running"]
    if not alive:
        return _Partitions()
    bootstrap = parse_bootstrap(site.plan.bootstrap(cluster, alive[0].region))
    async with asyncio.timeout(ANSWER_SECONDS):
        async with Client(bootstrap, client_id="isthmus-status", operation_seconds=ANSWER_SECONDS) as client:
            topics = await list_topics(client)
            led = [
                (TopicPartition(topic.name, index), partition.leader)
                for topic in topics.values()
                for index, partition in topic.partitions.items()
            ]
            asked = [partition for partition, leader in led if leader >= 0]
            told = await replica_status(client, asked)
    statuses = tuple(status for status in told.values() if isinstance(status, PartitionStatus))
    return _Partitions(len(led) - len(asked), statuses)


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
    found: dict[str, list[tuple[ReplicaStatus, int]]] = defaultdict(list)
    for replica, lag in partitions.replicas():
        found[region_of.get(replica.broker, "unknown")].append((replica, lag))
    for region in site.topology.regions:
        here = found[region]
        yield {
            "cluster": cluster,
            "region": region,
            "replicas": len(here),
            "leaders": sum(replica.is_leader for replica, _ in here),
            "in_sync": sum(replica.is_in_isr for replica, _ in here),
            "observers": sum(replica.is_observer for replica, _ in here),
            "lag": max((lag for _, lag in here), default=None),
            "lag_ms": max(
                (replica.caught_up_lag_ms for replica, _ in here if replica.caught_up_lag_ms >= 0), default=None
            ),
            "bootstrap": site.plan.bootstrap(cluster, region),
        }
