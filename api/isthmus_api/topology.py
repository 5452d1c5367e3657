"""The document behind the map: regions with their places, clusters with what they hold in each region, and the flows between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isthmus_client.metadata import TopicPartition
from isthmus_model.clocks import WallMs
from isthmus_model.endpoints import Endpoint, parse_bootstrap
from isthmus_model.regions import region_of

from isthmus_api.core.cluster_state import ClusterSeen, ClusterState
from isthmus_api.core.flows import Flow, flows
from isthmus_api.core.lag_series import Latest
from isthmus_api.core.reachability import Reach
from isthmus_api.models import Shape
from isthmus_api.store.inventory import ClusterKind, Region, RegisteredCluster


class RegionOnMap(Shape):
    """A region; one that only a broker's rack names has no place yet."""

    name: str
    title: str
    latitude: float | None
    longitude: float | None


class BrokerOnMap(Shape):
    """A broker and what it holds. `away_since_ms`: it answers no probe of the control plane, and when it last did."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    region: str
    fenced: bool
    away_since_ms: int | None
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
    """A cluster as it was seen at `seen_ms`. `away_since_ms`: nobody answers there, and when somebody last did.

    `partial`: it has more partitions than observers were counted of.
    """

    cluster_id: str
    name: str
    kind: ClusterKind
    state: ClusterState
    message: str
    seen_ms: int | None
    away_since_ms: int | None
    controller_id: int
    brokers: list[BrokerOnMap]
    regions: list[RegionShare]
    topics: int
    partitions: int
    under_replicated: int
    leaderless: int
    partial: bool


class TopologyDocument(Shape):
    """All of it at one moment."""

    at_ms: int
    regions: list[RegionOnMap]
    clusters: list[ClusterOnMap]
    flows: list[Flow]


def topology(
    now_ms: WallMs,
    regions: Iterable[Region],
    clusters: Sequence[RegisteredCluster],
    seen: Mapping[str, ClusterSeen],
    latest: Iterable[Latest],
    away: Mapping[Endpoint, Reach],
) -> TopologyDocument:
    """Put together what is registered, what was seen and what was sampled, and who does not answer."""
    on_map = [_cluster(cluster, seen.get(cluster.cluster_id, ClusterSeen()), away) for cluster in clusters]
    found = flows(now_ms, clusters, seen, latest, away)
    named = {share.region for cluster in on_map for share in cluster.regions if share.region}
    named |= {region for flow in found for region in (flow.source_region, flow.target_region) if region}
    return TopologyDocument(at_ms=now_ms, regions=_regions(regions, named), clusters=on_map, flows=found)


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


def _cluster(cluster: RegisteredCluster, seen: ClusterSeen, away: Mapping[Endpoint, Reach]) -> ClusterOnMap:
    topics = seen.topics or {}
    partitions = [partition for topic in topics.values() for partition in topic.partitions.values()]
    brokers = _brokers(seen, away)
    state, message, away_since_ms = _state(cluster, seen, away)
    return ClusterOnMap(
        cluster_id=cluster.cluster_id,
        name=cluster.name,
        kind=cluster.kind,
        state=state,
        message=message,
        seen_ms=seen.seen_ms,
        away_since_ms=away_since_ms,
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


def _state(
    cluster: RegisteredCluster, seen: ClusterSeen, away: Mapping[Endpoint, Reach]
) -> tuple[ClusterState, str, int | None]:
    """Probes know sooner than a look that nobody is there."""
    brokers = () if seen.described is None else seen.described.brokers
    addresses = [broker.endpoint for broker in brokers] or list(parse_bootstrap(cluster.bootstrap_servers))
    if all(address in away for address in addresses):
        last = max((away[address] for address in addresses), key=lambda reach: reach.heard_ms)
        return ClusterState.AWAY, f"None of its brokers answers: {last.why}", last.heard_ms
    return seen.state, seen.message, seen.seen_ms if seen.state is ClusterState.AWAY else None


def _behind(seen: ClusterSeen, topic: str, index: int) -> bool:
    """Fewer in sync than can be: observers are never counted on."""
    assert seen.topics is not None
    partition = seen.topics[topic].partitions[index]
    told = (seen.replicas or {}).get(TopicPartition(topic, index))
    observers = {one.broker for one in told.status.replicas if one.is_observer} if told is not None else set()
    return bool(set(partition.replicas) - set(partition.in_sync) - observers)


def _brokers(seen: ClusterSeen, away: Mapping[Endpoint, Reach]) -> list[BrokerOnMap]:
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
    for told in (seen.replicas or {}).values():
        for one in told.status.replicas:
            observers[one.broker] = observers.get(one.broker, 0) + one.is_observer
    return [
        BrokerOnMap(
            broker_id=broker.node_id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            region=region_of(broker.rack),
            fenced=broker.fenced,
            away_since_ms=None if (reach := away.get(broker.endpoint)) is None else reach.heard_ms,
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
