"""The map's document from what was registered, seen and sampled."""

from isthmus_api.core.cluster_state import ClusterSeen, ClusterState, ReplicasSeen
from isthmus_api.core.reachability import Reach
from isthmus_api.store.inventory import ClusterKind, Region, RegisteredCluster
from isthmus_api.topology import topology
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
        replicas={TopicPartition("t", 0): ReplicasSeen(NOW, 1, status)},
    )


def test_a_cluster_is_told_of_by_region() -> None:
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


def test_a_cluster_that_never_answered_has_its_regions() -> None:
    (cluster,) = topology(WallMs(NOW), [], [FAR], {}, [], {}).clusters
    assert (cluster.state, cluster.brokers, [share.region for share in cluster.regions]) == ("UNKNOWN", [], ["asia"])


GONE = Reach(NOW - 7_000, 2, "no answer within 2.5 s")


def test_brokers_that_do_not_answer_are_told_with_the_time_of_their_last_answer() -> None:
    (cluster,) = topology(WallMs(NOW), [], [TWO], {"two": _seen()}, [], {Endpoint("h", 9002): GONE}).clusters
    assert [(broker.broker_id, broker.away_since_ms) for broker in cluster.brokers] == [
        (1, None),
        (2, NOW - 7_000),
        (3, None),
    ]
    assert (cluster.state, cluster.away_since_ms) == ("UP", None)


def test_a_cluster_is_away_when_none_of_its_brokers_answers_whatever_the_last_look_found() -> None:
    away = {Endpoint("h", 9001): GONE, Endpoint("h", 9002): Reach(NOW - 6_000, 2, "refused"), Endpoint("h", 9003): GONE}
    (cluster,) = topology(WallMs(NOW), [], [TWO], {"two": _seen()}, [], away).clusters
    assert (cluster.state, cluster.away_since_ms, cluster.seen_ms) == ("AWAY", NOW - 6_000, NOW)
    assert cluster.message == "None of its brokers answers: refused"


def test_of_a_cluster_that_was_never_seen_the_bootstrap_addresses_decide() -> None:
    (cluster,) = topology(WallMs(NOW), [], [FAR], {}, [], {Endpoint("y", 1): GONE}).clusters
    assert (cluster.state, cluster.away_since_ms) == ("AWAY", NOW - 7_000)


def test_a_look_that_fails_for_good_is_told_with_the_time_of_the_last_good_one() -> None:
    seen = ClusterSeen(state=ClusterState.AWAY, message="Another cluster answers", seen_ms=NOW - 9_000, failed=2)
    (cluster,) = topology(WallMs(NOW), [], [TWO], {"two": seen}, [], {}).clusters
    assert (cluster.state, cluster.message, cluster.away_since_ms) == ("AWAY", "Another cluster answers", NOW - 9_000)
