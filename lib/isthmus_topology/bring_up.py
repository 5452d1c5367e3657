"""Start and stop a topology."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from isthmus_broker.edge.assembly.format import format_directories
from isthmus_broker.edge.storage.filesystem import SYSTEM
from isthmus_client.admin.topics import NewTopic, create, list_topics
from isthmus_client.client import Client
from isthmus_client.errors import ClientError, Refused
from isthmus_model.endpoints import parse_bootstrap
from isthmus_wire.errors import ErrorCode

from isthmus_topology.description import Cluster
from isthmus_topology.plan import ServicePlan
from isthmus_topology.processes import WAN, Site, await_ready, start, start_node, start_service, stop
from isthmus_topology.reading import TopologyRefused
from isthmus_topology.wiring import make_links, register

READY_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.05
Report = Callable[[str], None]


def bring_up(site: Site, report: Report) -> None:
    """Start the processes that do not run, create the topics, and wait until every partition has a leader.

    On failure (TopologyRefused) or interruption, stops the processes that it started.
    """
    before = set(_alive(site))
    try:
        _bring_up(site, report)
    except BaseException:
        _end(site, [name for name in _alive(site) if name not in before])
        raise


def _bring_up(site: Site, report: Report) -> None:
    site.directory.mkdir(parents=True, exist_ok=True)
    _format(site)
    site.save()
    if site.plan.relays and site.state_of(WAN) == "dead":
        start(site, WAN, ["wan", "serve", "--dir", str(site.directory)])
        await_ready(site, [WAN], READY_SECONDS, lambda _: report("distance between regions"))
    stopped = [node for node in site.plan.nodes if site.state_of(node.name) == "dead"]
    for node in stopped:
        start_node(site, node)
    await_ready(site, [node.name for node in stopped], READY_SECONDS, report)
    for cluster in site.topology.clusters:
        asyncio.run(_create_topics(site, cluster))
        report(f"cluster {cluster.name}")
    _serve(site, report)


def _serve(site: Site, report: Report) -> None:
    """Start the services, and create the cluster links."""
    stopped = _stopped_services(site)
    for service in stopped:
        start_service(site, service)
    make_links(site)
    await_ready(site, [service.name for service in stopped], READY_SECONDS, report)
    if site.topology.services.control_plane is not None:
        register(site)


def steps(site: Site) -> int:
    """The number of reports of `bring_up`."""
    stopped = sum(site.state_of(node.name) == "dead" for node in site.plan.nodes)
    wan = bool(site.plan.relays) and site.state_of(WAN) == "dead"
    return stopped + wan + len(site.topology.clusters) + len(_stopped_services(site))


def _stopped_services(site: Site) -> list[ServicePlan]:
    return [service for service in site.plan.services if site.state_of(service.name) == "dead"]


def _format(site: Site) -> None:
    """Format the directories of all nodes of a cluster with its id before the first node starts."""
    for cluster in site.topology.clusters:
        cluster_id: str | None = None
        nodes = [node for node in site.plan.nodes if node.cluster == cluster.name]
        formatted = [node for node in nodes if Path(node.settings["log.dirs"], "meta.properties").exists()]
        for node in (*formatted, *nodes):
            directory = Path(node.settings["log.dirs"])
            directory.mkdir(parents=True, exist_ok=True)
            cluster_id = format_directories(SYSTEM, [directory], node.node_id, cluster_id).cluster_id


async def _create_topics(site: Site, cluster: Cluster) -> None:
    bootstrap = parse_bootstrap(site.plan.bootstrap(cluster.name))
    try:
        async with Client(bootstrap, client_id="isthmus-up", operation_seconds=READY_SECONDS) as client:
            async with asyncio.timeout(READY_SECONDS):
                await _all_brokers(client, cluster)
                new_topics = [
                    NewTopic(t.name, t.partitions, t.replication_factor, configs=t.config) for t in cluster.topics
                ]
                for refused in (await create(client, new_topics)).values() if new_topics else ():
                    if isinstance(refused, Exception) and not _exists(refused):
                        raise TopologyRefused(f"cluster {cluster.name}: {refused}")
                await _all_led(client, cluster)
    except TimeoutError:
        raise TopologyRefused(f"cluster {cluster.name} did not become ready within {READY_SECONDS:.0f} s") from None
    except (ClientError, OSError) as error:
        raise TopologyRefused(f"cluster {cluster.name}: {error}") from error


def _exists(refused: Exception) -> bool:
    return isinstance(refused, Refused) and refused.code is ErrorCode.topic_already_exists


async def _all_brokers(client: Client, cluster: Cluster) -> None:
    while len(client.view.brokers) < cluster.broker_count:
        await asyncio.sleep(_POLL_SECONDS)
        await client.refresh()


async def _all_led(client: Client, cluster: Cluster) -> None:
    while True:
        topics = await list_topics(client)
        created = [topics[topic.name] for topic in cluster.topics if topic.name in topics]
        if len(created) == len(cluster.topics) and all(p.leader >= 0 for t in created for p in t.partitions.values()):
            return
        await asyncio.sleep(_POLL_SECONDS)


def bring_down(site: Site, *, purge: bool) -> None:
    """Stop all processes; with `purge`, delete the data as well."""
    _end(site, _alive(site))
    site.processes = {}
    site.save()
    if purge:
        shutil.rmtree(site.directory)


def _alive(site: Site) -> list[str]:
    return [name for name in site.processes if site.state_of(name) != "dead"]


def _end(site: Site, names: Sequence[str]) -> None:
    """Stop services first, then brokers while the quorum still exists, then voters, and the emulator last."""
    voters = {node.name for node in site.plan.nodes if node.is_controller}
    services = {service.name for service in site.plan.services}
    stop(site, [name for name in names if name in services])
    stop(site, [name for name in names if name != WAN and name not in voters and name not in services])
    stop(site, [name for name in names if name in voters])
    stop(site, [name for name in names if name == WAN])
