"""The document behind the map: regions with their places, clusters with what they hold in each region, and the flows between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from isthmus_client.admin.cluster import Cluster
from isthmus_client.admin.replicas import PartitionStatus
from isthmus_client.metadata import Topic, TopicPartition, region_of
from isthmus_service.lag import CopyKind

from isthmus_api.lag.series import NEVER, Copy, Point
from isthmus_api.models import Shape
from isthmus_api.store.inventory import ClusterKind, Region, RegisteredCluster

FRESH_MS: Final = 60_000
"""A copy whose last sample is older is silent."""


class ClusterState(StrEnum):
    """Whether a cluster answers."""

    UP = "UP"
    AWAY = "AWAY"
    UNKNOWN = "UNKNOWN"


class FlowState(StrEnum):
    """How a flow between regions fares; links have their own states beside these."""

    ACTIVE = "ACTIVE"
    BEHIND = "BEHIND"
    SILENT = "SILENT"


class RegionOnMap(Shape):
    """A region; one that only a broker's rack names has no place yet."""

    name: str
    title: str
    latitude: float | None
    longitude: float | None


class BrokerOnMap(Shape):
    """A broker and what it holds."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    region: str
    fenced: bool
    leaders: int
    replicas: int
    in_sync: int
    observers: int


class RegionShare(Shape):
    """What a cluster holds in one region."""

    region: str
    brokers: int
    leaders: int
    replicas: int
    in_sync: int
    observers: int


class ClusterOnMap(Shape):
    """A cluster as it was last seen. `partial`: it has more partitions than observers were counted of."""

    cluster_id: str
    name: str
    kind: ClusterKind
    state: ClusterState
    message: str
    seen_ms: int | None
    controller_id: int
    brokers: list[BrokerOnMap]
    regions: list[RegionShare]
    topics: int
    partitions: int
    under_replicated: int
    leaderless: int
    partial: bool


class Flow(Shape):
    """Records that go from one region to another: by a link, a mirror, or to observers. A lag of -1 is not known."""

    flow_id: str
    kind: CopyKind
    name: str
    source_cluster: str
    target_cluster: str
    source_region: str
    target_region: str
    state: str
    message: str
    copies: int
    lag_ms: int
    lag_records: int


class TopologyDocument(Shape):
    """All of it at one moment."""

    at_ms: int
    regions: list[RegionOnMap]
    clusters: list[ClusterOnMap]
    flows: list[Flow]


@dataclass(frozen=True, slots=True)
class LinkSeen:
    """A link as its destination describes it."""

    name: str
    source_cluster: str
    state: str
    message: str
    topics: int


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """What a cluster told when it was last asked; without `described` it has never answered."""

    state: ClusterState = ClusterState.UNKNOWN
    message: str = ""
    seen_ms: int | None = None
    described: Cluster | None = None
    topics: Mapping[str, Topic] | None = None
    replicas: Mapping[TopicPartition, PartitionStatus] | None = None
    links: Sequence[LinkSeen] = ()


def topology(
    now_ms: int,
    regions: Iterable[Region],
    clusters: Sequence[RegisteredCluster],
    seen: Mapping[str, ClusterSeen],
    latest: Iterable[tuple[Copy, Point]],
) -> TopologyDocument:
    """Put together what is registered, what was seen and what was sampled."""
    on_map = [_cluster(cluster, seen.get(cluster.cluster_id, ClusterSeen())) for cluster in clusters]
    flows = [*_observer_flows(clusters, seen), *_sampled_flows(latest, now_ms)]
    flows = _with_links(flows, clusters, seen)
    named = {share.region for cluster in on_map for share in cluster.regions if share.region}
    named |= {region for flow in flows for region in (flow.source_region, flow.target_region) if region}
    return TopologyDocument(
        at_ms=now_ms,
        regions=_regions(regions, named),
        clusters=on_map,
        flows=sorted(flows, key=lambda flow: flow.flow_id),
    )


def _regions(placed: Iterable[Region], named: set[str]) -> list[RegionOnMap]:
    known = {
        region.name: RegionOnMap(
            name=region.name, title=region.title, latitude=region.latitude, longitude=region.longitude
        )
        for region in placed
    }
    for name in named - known.keys():
        known[name] = RegionOnMap(name=name, title=name, latitude=None, longitude=None)
    return [known[name] for name in sorted(known)]


def _cluster(cluster: RegisteredCluster, seen: ClusterSeen) -> ClusterOnMap:
    topics = seen.topics or {}
    partitions = [partition for topic in topics.values() for partition in topic.partitions.values()]
    brokers = _brokers(seen)
    return ClusterOnMap(
        cluster_id=cluster.cluster_id,
        name=cluster.name,
        kind=cluster.kind,
        state=seen.state,
        message=seen.message,
        seen_ms=seen.seen_ms,
        controller_id=-1 if seen.described is None else seen.described.controller_id,
        brokers=brokers,
        regions=_shares(brokers) or [_nothing_in(region) for region in cluster.regions],
        topics=len(topics),
        partitions=len(partitions),
        under_replicated=sum(
            _behind(seen, topic.name, index) for topic in topics.values() for index in topic.partitions
        ),
        leaderless=sum(partition.leader < 0 for partition in partitions),
        partial=seen.replicas is not None and len(seen.replicas) < len(partitions),
    )


def _behind(seen: ClusterSeen, topic: str, index: int) -> bool:
    """Fewer in sync than can be: observers are never counted on."""
    assert seen.topics is not None
    partition = seen.topics[topic].partitions[index]
    status = (seen.replicas or {}).get(TopicPartition(topic, index))
    observers = {one.broker for one in status.replicas if one.is_observer} if status is not None else set()
    return bool(set(partition.replicas) - set(partition.in_sync) - observers)


def _brokers(seen: ClusterSeen) -> list[BrokerOnMap]:
    if seen.described is None:
        return []
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    in_sync: dict[int, int] = {}
    observers: dict[int, int] = {}
    for topic in (seen.topics or {}).values():
        for partition in topic.partitions.values():
            leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
            for broker in partition.replicas:
                replicas[broker] = replicas.get(broker, 0) + 1
            for broker in partition.in_sync:
                in_sync[broker] = in_sync.get(broker, 0) + 1
    for status in (seen.replicas or {}).values():
        for one in status.replicas:
            observers[one.broker] = observers.get(one.broker, 0) + one.is_observer
    return [
        BrokerOnMap(
            broker_id=broker.node_id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            region=region_of(broker.rack),
            fenced=broker.fenced,
            leaders=leaders.get(broker.node_id, 0),
            replicas=replicas.get(broker.node_id, 0),
            in_sync=in_sync.get(broker.node_id, 0),
            observers=observers.get(broker.node_id, 0),
        )
        for broker in seen.described.brokers
    ]


def _shares(brokers: Sequence[BrokerOnMap]) -> list[RegionShare]:
    shares: dict[str, list[BrokerOnMap]] = {}
    for broker in brokers:
        shares.setdefault(broker.region, []).append(broker)
    return [
        RegionShare(
            region=region,
            brokers=len(share),
            leaders=sum(broker.leaders for broker in share),
            replicas=sum(broker.replicas for broker in share),
            in_sync=sum(broker.in_sync for broker in share),
            observers=sum(broker.observers for broker in share),
        )
        for region, share in sorted(shares.items())
    ]


def _nothing_in(region: str) -> RegionShare:
    return RegionShare(region=region, brokers=0, leaders=0, replicas=0, in_sync=0, observers=0)


# -- flows -------------------------------------------------------------------------------------------------------------------


def _observer_flows(clusters: Iterable[RegisteredCluster], seen: Mapping[str, ClusterSeen]) -> list[Flow]:
    """From the leaders' own word, which is there before any sample is."""
    flows: list[Flow] = []
    for cluster in clusters:
        told = seen.get(cluster.cluster_id)
        if told is None or told.described is None or told.state is not ClusterState.UP:
            continue
        regions = {broker.node_id: region_of(broker.rack) for broker in told.described.brokers}
        gathered: dict[tuple[str, str], list[tuple[bool, int, int]]] = {}
        for status in (told.replicas or {}).values():
            leader = next((one for one in status.replicas if one.is_leader), None)
            if leader is None:
                continue
            for one in status.replicas:
                if one.is_observer and not one.is_leader:
                    pair = (regions.get(leader.broker, ""), regions.get(one.broker, ""))
                    lacking = max(leader.log_end - one.log_end, 0)
                    lag_ms = 0 if one.is_caught_up else one.caught_up_lag_ms
                    gathered.setdefault(pair, []).append((one.is_caught_up, lag_ms, lacking))
        for (source, target), copies in gathered.items():
            state = FlowState.ACTIVE if all(caught_up for caught_up, _, _ in copies) else FlowState.BEHIND
            copy = _between(CopyKind.OBSERVER, "", cluster.cluster_id, cluster.cluster_id, source, target)
            flows.append(_flow(copy, state, "", [(lag_ms, lacking) for _, lag_ms, lacking in copies]))
    return flows


def _sampled_flows(latest: Iterable[tuple[Copy, Point]], now_ms: int) -> list[Flow]:
    """Links and mirrors by the regions that they join."""
    gathered: dict[Copy, list[Point]] = {}
    for copy, point in latest:
        if copy.kind in (CopyKind.LINK, CopyKind.MIRROR):
            gathered.setdefault(copy._replace(source_topic="", topic="", partition=-1, target_broker=-1), []).append(
                point
            )
    flows = []
    for copy, points in gathered.items():
        fresh = [point for point in points if point.at_ms >= now_ms - FRESH_MS]
        state = FlowState.ACTIVE if fresh else FlowState.SILENT
        flows.append(_flow(copy, state, "", [(point.lag_ms, point.lag_records) for point in fresh or points]))
    return flows


def _with_links(
    flows: list[Flow], clusters: Iterable[RegisteredCluster], seen: Mapping[str, ClusterSeen]
) -> list[Flow]:
    """A link's flows have its state; one without samples is a flow between the first regions of its clusters."""
    regions = {cluster.cluster_id: (cluster.regions or ("",))[0] for cluster in clusters}
    described = {
        (target, link.name): link for target in sorted(seen) for link in seen[target].links if target in regions
    }
    told: list[Flow] = []
    for flow in flows:
        link = described.get((flow.target_cluster, flow.name)) if flow.kind is CopyKind.LINK else None
        told.append(flow if link is None else flow.model_copy(update={"state": link.state, "message": link.message}))
    flowing = {(flow.target_cluster, flow.name) for flow in flows if flow.kind is CopyKind.LINK}
    for (target, name), link in described.items():
        if (target, name) not in flowing:
            source = regions.get(link.source_cluster, "")
            copy = _between(CopyKind.LINK, name, link.source_cluster, target, source, regions[target])
            told.append(_flow(copy, link.state, link.message, []))
    return told


def _between(kind: CopyKind, name: str, source: str, target: str, source_region: str, target_region: str) -> Copy:
    return Copy(kind, name, source, target, source_region, target_region, "", "", -1, -1)


def _flow(copy: Copy, state: str, message: str, lags: Sequence[tuple[int, int]]) -> Flow:
    place = (copy.kind, copy.link, copy.source_cluster, copy.target_cluster, copy.source_region, copy.target_region)
    return Flow(
        flow_id="/".join(place),
        kind=copy.kind,
        name=copy.link,
        source_cluster=copy.source_cluster,
        target_cluster=copy.target_cluster,
        source_region=copy.source_region,
        target_region=copy.target_region,
        state=state,
        message=message,
        copies=len(lags),
        lag_ms=max((lag_ms for lag_ms, _ in lags), default=NEVER),
        lag_records=sum(records for _, records in lags) if lags else NEVER,
    )
