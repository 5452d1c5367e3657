"""The document behind the map: regions with their locations, clusters with their brokers by region, and the flows between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isthmus_client.metadata import TopicPartition
from isthmus_model.clocks import WallMs
from isthmus_model.endpoints import Endpoint, parse_bootstrap
from isthmus_model.regions import region_of

from isthmus_api.core.cluster_state import ClusterSnapshot, ClusterState
from isthmus_api.core.flows import Flow, flows
from isthmus_api.core.inventory import ClusterKind, Region, RegisteredCluster
from isthmus_api.core.lag_series import Latest
from isthmus_api.core.reachability import Reachability
from isthmus_api.models import Shape


class RegionOnMap(Shape):
    """A region; one that only appears in a broker's rack has no location."""

    name: str
    title: str
    latitude: float | None
    longitude: float | None


class BrokerOnMap(Shape):
    """A broker and its replicas. `unreachable_since_ms` is when it last responded to a probe, null while it is reachable."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    region: str
    fenced: bool
    unreachable_since_ms: int | None
    leaders: int
    replicas: int
    in_sync: int
    observers: int


class RegionShare(Shape):
    """A cluster's brokers and partitions in one region."""

    region: str
    brokers: int
    leaders: int
    replicas: int
    in_sync: int
    observers: int


class ClusterOnMap(Shape):
    """A cluster as of `updated_ms`. `unreachable_since_ms` is when it last responded, null while it is reachable.

    `partial` is true when it has more partitions than observers are counted for.
    """

    cluster_id: str
    name: str
    kind: ClusterKind
    state: ClusterState
    message: str
    updated_ms: int | None
    unreachable_since_ms: int | None
    controller_id: int
    brokers: list[BrokerOnMap]
    regions: list[RegionShare]
    topics: int
    partitions: int
    under_replicated: int
    leaderless: int
    partial: bool


class TopologyDocument(Shape):
    """The topology at one moment."""

    at_ms: int
    regions: list[RegionOnMap]
    clusters: list[ClusterOnMap]
    flows: list[Flow]


def topology(
    now_ms: WallMs,
    regions: Iterable[Region],
    clusters: Sequence[RegisteredCluster],
    snapshots: Mapping[str, ClusterSnapshot],
    latest: Iterable[Latest],
    unreachable: Mapping[Endpoint, Reachability],
) -> TopologyDocument:
    """Combine the inventory, the latest snapshots, the lag samples and the probes."""
    on_map = [
        _cluster(cluster, snapshots.get(cluster.cluster_id, ClusterSnapshot()), unreachable) for cluster in clusters
    ]
    flows_on_map = flows(now_ms, clusters, snapshots, latest, unreachable)
    named = {share.region for cluster in on_map for share in cluster.regions if share.region}
    named |= {region for flow in flows_on_map for region in (flow.source_region, flow.target_region) if region}
    return TopologyDocument(at_ms=now_ms, regions=_regions(regions, named), clusters=on_map, flows=flows_on_map)


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


def _cluster(
    cluster: RegisteredCluster, snapshot: ClusterSnapshot, unreachable: Mapping[Endpoint, Reachability]
) -> ClusterOnMap:
    topics = snapshot.topics or {}
    partitions = [partition for topic in topics.values() for partition in topic.partitions.values()]
    brokers = _brokers(snapshot, unreachable)
    state, message, unreachable_since_ms = _state(cluster, snapshot, unreachable)
    return ClusterOnMap(
        cluster_id=cluster.cluster_id,
        name=cluster.name,
        kind=cluster.kind,
        state=state,
        message=message,
        updated_ms=snapshot.updated_ms,
        unreachable_since_ms=unreachable_since_ms,
        controller_id=-1 if snapshot.described is None else snapshot.described.controller_id,
        brokers=brokers,
        regions=_shares(brokers) or [_nothing_in(region) for region in cluster.regions],
        topics=len(topics),
        partitions=len(partitions),
        under_replicated=sum(
            _behind(snapshot, topic.name, index) for topic in topics.values() for index in topic.partitions
        ),
        leaderless=sum(partition.leader < 0 for partition in partitions),
        partial=snapshot.replicas is not None and len(snapshot.replicas) < len(partitions),
    )


def _state(
    cluster: RegisteredCluster, snapshot: ClusterSnapshot, unreachable: Mapping[Endpoint, Reachability]
) -> tuple[ClusterState, str, int | None]:
    """Probes notice an unreachable cluster sooner than a poll does."""
    brokers = () if snapshot.described is None else snapshot.described.brokers
    addresses = [broker.endpoint for broker in brokers] or list(parse_bootstrap(cluster.bootstrap_servers))
    if all(address in unreachable for address in addresses):
        last = max((unreachable[address] for address in addresses), key=lambda one: one.responded_ms)
        return ClusterState.UNREACHABLE, f"None of its brokers is reachable: {last.why}", last.responded_ms
    return snapshot.state, snapshot.message, snapshot.updated_ms if snapshot.state is ClusterState.UNREACHABLE else None


def _behind(snapshot: ClusterSnapshot, topic: str, index: int) -> bool:
    """Whether fewer replicas are in sync than could be, observers aside."""
    assert snapshot.topics is not None
    partition = snapshot.topics[topic].partitions[index]
    report = (snapshot.replicas or {}).get(TopicPartition(topic, index))
    observers = {one.broker for one in report.status.replicas if one.is_observer} if report is not None else set()
    return bool(set(partition.replicas) - set(partition.in_sync) - observers)


def _brokers(snapshot: ClusterSnapshot, unreachable: Mapping[Endpoint, Reachability]) -> list[BrokerOnMap]:
    if snapshot.described is None:
        return []
    leaders: dict[int, int] = {}
    replicas: dict[int, int] = {}
    in_sync: dict[int, int] = {}
    observers: dict[int, int] = {}
    for topic in (snapshot.topics or {}).values():
        for partition in topic.partitions.values():
            leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
            for broker in partition.replicas:
                replicas[broker] = replicas.get(broker, 0) + 1
            for broker in partition.in_sync:
                in_sync[broker] = in_sync.get(broker, 0) + 1
    for report in (snapshot.replicas or {}).values():
        for one in report.status.replicas:
            observers[one.broker] = observers.get(one.broker, 0) + one.is_observer
    return [
        BrokerOnMap(
            broker_id=broker.node_id,
            host=broker.host,
            port=broker.port,
            rack=broker.rack,
            region=region_of(broker.rack),
            fenced=broker.fenced,
            unreachable_since_ms=None if (probed := unreachable.get(broker.endpoint)) is None else probed.responded_ms,
            leaders=leaders.get(broker.node_id, 0),
            replicas=replicas.get(broker.node_id, 0),
            in_sync=in_sync.get(broker.node_id, 0),
            observers=observers.get(broker.node_id, 0),
        )
        for broker in snapshot.described.brokers
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
