"""The map's document from what was registered, seen and sampled."""

from isthmus_api.lag.series import Copy, Point
from isthmus_api.store.inventory import ClusterKind, Region, RegisteredCluster
from isthmus_api.topology import FRESH_MS, ClusterSeen, ClusterState, LinkSeen, topology
from isthmus_client.admin.cluster import BrokerStatus, Cluster
from isthmus_client.admin.replicas import PartitionStatus, ReplicaStatus
from isthmus_client.metadata import Partition, Topic, TopicPartition
from isthmus_service.lag import CopyKind

NOW = 1_000_000
TWO = RegisteredCluster("two", "second", "x:1", ClusterKind.ISTHMUS, ("eu", "us"), 0)
FAR = RegisteredCluster("far", "distant", "y:1", ClusterKind.KAFKA, ("asia",), 0)


def _replica(broker: int, *, leader: bool = False, observer: bool = False, end: int = 10) -> ReplicaStatus:
    caught_up = end == 10
    return ReplicaStatus(broker, leader, observer, not observer, not observer, caught_up, 400, 0, 0, end)


def _seen() -> ClusterSeen:
    brokers = tuple(BrokerStatus(n, "h", 9000 + n, rack, False) for n, rack in ((1, "eu/a"), (2, "us/a"), (3, "us/b")))
    partitions = {
        0: Partition(0, leader=1, leader_epoch=0, replicas=(1, 2, 3), in_sync=(1, 2)),
        1: Partition(1, leader=-1, leader_epoch=0, replicas=(2,), in_sync=()),
    }
    status = PartitionStatus(0, (_replica(1, leader=True), _replica(2), _replica(3, observer=True, end=7)))
    return ClusterSeen(
        state=ClusterState.UP,
        seen_ms=NOW,
        described=Cluster("two", 1, brokers),
        topics={"t": Topic("t", None, False, partitions)},
        replicas={TopicPartition("t", 0): status},
    )


def test_a_cluster_is_told_of_by_region() -> None:
    told = topology(NOW, [Region("eu", "Europe", 50.0, 8.0)], [TWO], {"two": _seen()}, [])
    (cluster,) = told.clusters
    assert (cluster.state, cluster.controller_id, cluster.topics, cluster.partitions) == ("UP", 1, 1, 2)
    assert (cluster.under_replicated, cluster.leaderless, cluster.partial) == (1, 1, True)  # an observer is not missed
    shares = {share.region: share for share in cluster.regions}
    assert (shares["eu"].brokers, shares["eu"].leaders, shares["eu"].replicas, shares["eu"].in_sync) == (1, 1, 1, 1)
    assert (shares["us"].brokers, shares["us"].leaders, shares["us"].replicas, shares["us"].observers) == (2, 0, 3, 1)
    assert [(region.name, region.title, region.latitude) for region in told.regions] == [
        ("eu", "Europe", 50.0),
        ("us", "us", None),
    ]


def test_observers_are_a_flow_from_the_leaders_region() -> None:
    (flow,) = topology(NOW, [], [TWO], {"two": _seen()}, []).flows
    assert flow.flow_id == "observer//two/two/eu/us"
    assert (flow.state, flow.copies, flow.lag_ms, flow.lag_records) == ("BEHIND", 1, 400, 3)


def test_a_cluster_that_never_answered_has_its_regions() -> None:
    (cluster,) = topology(NOW, [], [FAR], {}, []).clusters
    assert (cluster.state, cluster.brokers, [share.region for share in cluster.regions]) == ("UNKNOWN", [], ["asia"])


def _copy(kind: CopyKind, name: str, partition: int) -> Copy:
    return Copy(kind, name, "far", "two", "asia", "eu", "t", "t", partition, -1)


def test_samples_make_flows_and_silence_is_told() -> None:
    latest = [
        (_copy(CopyKind.MIRROR, "m", 0), Point(NOW, 5, 2)),
        (_copy(CopyKind.MIRROR, "m", 1), Point(NOW - FRESH_MS, 9, 1)),
        (_copy(CopyKind.MIRROR, "m", 2), Point(NOW - FRESH_MS - 1, 99, 99)),
        (_copy(CopyKind.MIRROR, "old", 0), Point(NOW - FRESH_MS - 1, 7, 7)),
        (_copy(CopyKind.FOLLOWER, "", 0), Point(NOW, 1, 1)),
    ]
    mirror, old = topology(NOW, [], [FAR, TWO], {}, latest).flows
    assert (mirror.name, mirror.state, mirror.copies, mirror.lag_ms, mirror.lag_records) == ("m", "ACTIVE", 2, 9, 3)
    assert (old.name, old.state, old.lag_ms) == ("old", "SILENT", 7)


def test_links_have_the_state_that_their_destination_tells() -> None:
    links = [LinkSeen("sampled", "far", "PAUSED", "", 1), LinkSeen("quiet", "far", "FAILED", "refused", 0)]
    seen = {"two": ClusterSeen(state=ClusterState.UP, links=links)}
    latest = [(_copy(CopyKind.LINK, "sampled", 0), Point(NOW, 5, 2))]
    quiet, sampled = topology(NOW, [], [FAR, TWO], seen, latest).flows
    assert (sampled.name, sampled.state, sampled.lag_ms) == ("sampled", "PAUSED", 5)
    assert (quiet.name, quiet.state, quiet.message, quiet.lag_ms) == ("quiet", "FAILED", "refused", -1)
    assert (quiet.source_region, quiet.target_region) == ("asia", "eu")
