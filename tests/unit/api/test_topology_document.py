"""The map's document from what was registered, seen and sampled."""

from isthmus_api.core.cluster_state import ClusterSnapshot, ClusterState, ReplicasReport
from isthmus_api.core.inventory import ClusterKind, Region, RegisteredCluster
from isthmus_api.core.reachability import Reachability
from isthmus_api.core.topology import topology
from isthmus_client.admin.cluster import BrokerStatus, Cluster
from isthmus_client.admin.replicas import PartitionStatus, ReplicaStatus
from isthmus_client.metadata import Partition, Topic, TopicPartition
from isthmus_model.clocks import WallMs
from isthmus_model.endpoints import Endpoint

NOW = 1_000_000
TWO = RegisteredCluster("two", "second", "x:1", ClusterKind.ISTHMUS, ("eu", "us"), 0)
FAR = RegisteredCluster("far", "distant", "y:1", ClusterKind.KAFKA, ("asia",), 0)


def _replica(broker: int, *, leader: bool = False, observer: bool = False, end: int = 10) -> ReplicaStatus:
    caught_up = end == 10
    return ReplicaStatus(broker, leader, observer, not observer, not observer, caught_up, 400, 0, 0, end)


def _seen() -> ClusterSnapshot:
    brokers = tuple(BrokerStatus(n, "h", 9000 + n, rack, False) for n, rack in ((1, "eu/a"), (2, "us/a"), (3, "us/b")))
    partitions = {
        0: Partition(0, leader=1, leader_epoch=0, replicas=(1, 2, 3), in_sync=(1, 2)),
        1: Partition(1, leader=-1, leader_epoch=0, replicas=(2,), in_sync=()),
    }
    status = PartitionStatus(0, (_replica(1, leader=True), _replica(2), _replica(3, observer=True, end=7)))
    return ClusterSnapshot(
        state=ClusterState.UP,
        updated_ms=NOW,
        described=Cluster("two", 1, brokers),
        topics={"t": Topic("t", None, False, partitions)},
        replicas={TopicPartition("t", 0): ReplicasReport(NOW, 1, status)},
    )


def test_a_cluster_is_described_by_region() -> None:
    told = topology(WallMs(NOW), [Region("eu", "Europe", 50.0, 8.0)], [TWO], {"two": _seen()}, [], {})
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
    (flow,) = topology(WallMs(NOW), [], [TWO], {"two": _seen()}, [], {}).flows
    assert flow.flow_id == "observer//two/two/eu/us"
    assert (flow.state, flow.copies, flow.lag_ms, flow.lag_records) == ("BEHIND", 1, 400, 3)


def test_an_unreachable_new_cluster_has_its_registered_regions() -> None:
    (cluster,) = topology(WallMs(NOW), [], [FAR], {}, [], {}).clusters
    assert (cluster.state, cluster.brokers, [share.region for share in cluster.regions]) == ("UNKNOWN", [], ["asia"])


GONE = Reachability(NOW - 7_000, 2, "no response within 2.5 s")


def test_unreachable_brokers_have_the_time_of_their_last_response() -> None:
    (cluster,) = topology(WallMs(NOW), [], [TWO], {"two": _seen()}, [], {Endpoint("h", 9002): GONE}).clusters
    assert [(broker.broker_id, broker.unreachable_since_ms) for broker in cluster.brokers] == [
        (1, None),
        (2, NOW - 7_000),
        (3, None),
    ]
    assert (cluster.state, cluster.unreachable_since_ms) == ("UP", None)


def test_a_cluster_is_unreachable_when_all_its_brokers_are_whatever_the_last_poll_reported() -> None:
    away = {
        Endpoint("h", 9001): GONE,
        Endpoint("h", 9002): Reachability(NOW - 6_000, 2, "refused"),
        Endpoint("h", 9003): GONE,
    }
    (cluster,) = topology(WallMs(NOW), [], [TWO], {"two": _seen()}, [], away).clusters
    assert (cluster.state, cluster.unreachable_since_ms, cluster.updated_ms) == ("UNREACHABLE", NOW - 6_000, NOW)
    assert cluster.message == "None of its brokers is reachable: refused"


def test_bootstrap_servers_decide_about_a_cluster_that_was_never_polled() -> None:
    (cluster,) = topology(WallMs(NOW), [], [FAR], {}, [], {Endpoint("y", 1): GONE}).clusters
    assert (cluster.state, cluster.unreachable_since_ms) == ("UNREACHABLE", NOW - 7_000)


def test_failing_polls_make_a_cluster_unreachable_since_the_last_successful_one() -> None:
    seen = ClusterSnapshot(
        state=ClusterState.UNREACHABLE, message="Another cluster responds", updated_ms=NOW - 9_000, failed=2
    )
    (cluster,) = topology(WallMs(NOW), [], [TWO], {"two": seen}, [], {}).clusters
    assert (cluster.state, cluster.message, cluster.unreachable_since_ms) == (
        "UNREACHABLE",
        "Another cluster responds",
        NOW - 9_000,
    )
