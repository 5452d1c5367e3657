"""Observers, leaders and records when parts of a cluster over two data centres and a third voter fail."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic as KafkaTopic
from isthmus_client.admin.topics import NewTopic

from tests.system.stretched import NOBODY, Led, Stretched, running

TOPOLOGY: Final = """
regions = ["west", "east", "south"]

[[links]]
between = ["west", "east"]
latency_ms = 4

[[links]]
between = ["west", "south"]
latency_ms = 2

[[links]]
between = ["east", "south"]
latency_ms = 2

[[clusters]]
name = "c"

[clusters.config]
"replica.lag.time.max.ms" = 1500
"broker.session.timeout.ms" = 5000
"broker.heartbeat.interval.ms" = 500
"leader.imbalance.check.interval.seconds" = 3600

[[clusters.nodes]]
region = "west"
brokers = 3
voters = 1

[[clusters.nodes]]
region = "east"
brokers = 3
voters = 1

[[clusters.nodes]]
region = "south"
brokers = 0
controllers = 1
"""
# West has brokers 1 to 3, east 4 to 6; node 7 only votes. The first of each region votes as well.
WEST: Final = ("west-1", "west-2", "west-3")
SYNC: Final = frozenset({2, 3})
OBSERVERS: Final = frozenset({5, 6})
POLICIES: Final = ("none", "under-min-isr", "under-replicated", "leader-is-observer")
MIN_ISR: Final = {"none": 1, "under-min-isr": 2, "under-replicated": 1, "leader-is-observer": 1}
BEFORE: Final = [str(number).encode() for number in range(50)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stretched]:
    with running(tmp_path_factory.mktemp("regions"), TOPOLOGY) as made:
        yield made


@pytest.fixture
def cluster(site: Stretched) -> Iterator[Stretched]:
    """Everything runs, and the voter of the third region is the active controller."""
    site.lead_quorum_with("south-1", "west")
    yield site
    site.restore("west")


def placement(policy: str, sync: Mapping[str, int], observers: Mapping[str, int]) -> str:
    """Constraints as JSON: regions and how many replicas they have."""

    def shares(counts: Mapping[str, int]) -> list[object]:
        return [{"count": count, "constraints": {"region": region}} for region, count in counts.items()]

    given: dict[str, object] = {"version": 2, "replicas": shares(sync), "observers": shares(observers)}
    if policy != "none":
        given["observerPromotionPolicy"] = policy
    return json.dumps(given)


def observed(policy: str, min_isr: int | None = None) -> NewTopic:
    """A topic named for its policy, with two sync replicas in the west and two observers in the east."""
    configs = {
        "isthmus.placement.constraints": placement(policy, {"west": 2}, {"east": 2}),
        "min.insync.replicas": str(MIN_ISR[policy] if min_isr is None else min_isr),
    }
    return NewTopic(policy, assignments={0: (2, 3, 5, 6)}, configs=configs)


def begin(cluster: Stretched) -> None:
    """A topic of each policy with records that all replicas have."""
    cluster.make("west", *map(observed, POLICIES))
    cluster.await_led("west", dict.fromkeys(POLICIES, Led(2, SYNC)))
    for policy in POLICIES:
        assert cluster.produce("west", policy, BEFORE) == {""}
    cluster.await_even("west", *POLICIES)


def joined(leader: int, *others: int) -> list[Led]:
    """A leader in sync with one of the others."""
    return [Led(leader, frozenset({leader, other})) for other in others]


def led_by_observer(*, both: bool, with_sync: bool = False) -> list[Led]:
    """Either observer may lead."""
    sync = SYNC if with_sync else frozenset()
    return [Led(leader, (OBSERVERS if both else frozenset({leader})) | sync) for leader in sorted(OBSERVERS)]


def elect(cluster: Stretched, kind: ElectionType, *topics: str, region: str = "east") -> dict[str, str]:
    """Request elections; returns the error of each topic, empty for success."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap(region), "log_level": 2})
    answers = admin.elect_leaders(kind, [TopicPartition(topic, 0) for topic in topics]).result(60)
    return {place.topic: "" if error is None else error.name() for place, error in answers.items()}


def fail_back(cluster: Stretched, *topics: str) -> None:
    """The west is there again: its replicas come in sync beside the leader in the east, and then lead again, without observers."""
    cluster.start()
    cluster.await_led("west", dict.fromkeys(topics, led_by_observer(both=False, with_sync=True)))
    assert elect(cluster, ElectionType.PREFERRED, *topics, region="west") == dict.fromkeys(topics, "")
    cluster.await_led("west", dict.fromkeys(topics, Led(2, SYNC)))


def test_one_sync_broker_fails_then_all_of_its_region(cluster: Stretched) -> None:
    begin(cluster)
    whole = frozenset({2, 3, 5, 6})
    cluster.make("west", NewTopic("sync", assignments={0: sorted(whole)}, configs={"min.insync.replicas": "2"}))
    cluster.await_led("west", {"sync": Led(2, whole)})

    cluster.kill("west-2")
    alone = Led(3, frozenset({3}))
    cluster.await_led(
        "west",
        {
            "none": alone,
            "under-min-isr": joined(3, 5, 6),
            "under-replicated": joined(3, 5, 6),
            "leader-is-observer": alone,
            "sync": Led(3, whole - {2}),
        },
    )
    topics = (*POLICIES, "sync")
    for topic in topics:
        assert cluster.produce("west", topic, [b"without one"]) == {""}
    cluster.await_even("west", *topics, without={2})

    cluster.kill("west-1", "west-3")
    promoted = ("under-min-isr", "under-replicated", "sync")
    offline = ("none", "leader-is-observer")
    cluster.await_led("east", dict.fromkeys(promoted, led_by_observer(both=True)) | dict.fromkeys(offline, NOBODY))
    for topic in promoted:
        assert cluster.produce("east", topic, [b"without the west"]) == {""}
        assert cluster.read("east", topic, 52 if topic in POLICIES else 2)[-2:] == [b"without one", b"without the west"]
    for topic in offline:
        assert cluster.produce("east", topic, [b"in vain"], **{"message.timeout.ms": 1500}) == {"_MSG_TIMED_OUT"}
    assert elect(cluster, ElectionType.PREFERRED, *offline) == dict.fromkeys(offline, "PREFERRED_LEADER_NOT_AVAILABLE")
    assert elect(cluster, ElectionType.UNCLEAN, *offline) == dict.fromkeys(offline, "")
    cluster.await_led("east", {"none": led_by_observer(both=False), "leader-is-observer": led_by_observer(both=True)})
    for topic in offline:
        assert cluster.produce("east", topic, [b"without the west"]) == {""}
        assert cluster.read("east", topic, 52)[-2:] == [b"without one", b"without the west"]

    fail_back(cluster, *POLICIES)
    cluster.await_led("west", {"sync": [Led(leader, whole) for leader in sorted(OBSERVERS)]})


def test_all_sync_replicas_fail_at_once_and_what_observers_never_had_is_cut_when_they_are_back(
    cluster: Stretched,
) -> None:
    begin(cluster)
    cluster.cut("west", "east", reset=True)
    for topic in POLICIES:
        assert cluster.produce("west", topic, [b"tail"] * 10) == {""}
    cluster.kill(*WEST)
    cluster.heal()
    cluster.await_brokers("east", fenced={1, 2, 3})
    cluster.await_led("east", dict.fromkeys(POLICIES, NOBODY))

    assert elect(cluster, ElectionType.UNCLEAN, *POLICIES) == dict.fromkeys(POLICIES, "")
    cluster.await_led(
        "east",
        {policy: led_by_observer(both=policy != "none") for policy in POLICIES},
    )
    for topic in POLICIES:
        assert cluster.produce("east", topic, [b"new"] * 5) == {""}
    fail_back(cluster, *POLICIES)
    for topic in POLICIES:
        assert cluster.read("west", topic, 55) == [*BEFORE, *[b"new"] * 5]
        for node in ("west-2", "west-3"):
            assert f"{topic}-0: truncating to 50:" in cluster.log(node)


def test_partitioned_observers_are_not_promoted_though_the_controller_reaches_all(cluster: Stretched) -> None:
    cluster.make("west", observed("under-min-isr"))
    cluster.await_led("west", {"under-min-isr": Led(2, SYNC)})
    assert cluster.produce("west", "under-min-isr", BEFORE) == {""}
    cluster.cut("west", "east")
    assert cluster.produce("west", "under-min-isr", [b"not in the east"]) == {""}
    cluster.kill("west-2")
    cluster.await_brokers("south", fenced={2})
    cluster.await_led("south", {"under-min-isr": Led(3, frozenset({3}))})
    assert cluster.refused("west", "under-min-isr") == {"NOT_ENOUGH_REPLICAS"}
    # Nothing has changed: the observers cannot prove that they have all records, and the records are safe.
    cluster.await_led("south", {"under-min-isr": Led(3, frozenset({3}))})
    cluster.heal()
    cluster.await_led("west", {"under-min-isr": joined(3, 5, 6)})
    assert cluster.produce("west", "under-min-isr", [b"after"]) == {""}
    assert cluster.read("east", "under-min-isr", 52) == [*BEFORE, b"not in the east", b"after"]


def test_a_partition_between_two_regions_promotes_only_observers_that_reach_the_leader(cluster: Stretched) -> None:
    """Both regions reach the controller, but not each other. Stopping the leader's side is the repair where it has no observer."""
    even = {"west": 2, "east": 2}
    topics = {"across": (1, 2, 4, 5, 6), "beside": (1, 2, 4, 5, 3, 6)}
    observers = {"across": {"east": 1}, "beside": {"west": 1, "east": 1}}
    for topic, replicas in topics.items():
        constraints = placement("under-min-isr", even, observers[topic])
        configs = {"isthmus.placement.constraints": constraints, "min.insync.replicas": "3"}
        cluster.make("west", NewTopic(topic, assignments={0: replicas}, configs=configs))
    cluster.await_led("west", dict.fromkeys(topics, Led(1, frozenset({1, 2, 4, 5}))))
    for topic in topics:
        assert cluster.produce("west", topic, BEFORE) == {""}
    cluster.await_even("west", *topics)
    cluster.cut("west", "east")
    once = {"retries": 0, "request.timeout.ms": 2000}
    assert "" not in cluster.produce("west", "across", [b"never acknowledged"], **once)
    assert cluster.produce("west", "beside", [b"during"], **{"enable.idempotence": True}) == {""}
    alone, with_observer = Led(1, frozenset({1, 2})), Led(1, frozenset({1, 2, 3}))
    cluster.await_led("south", {"across": alone, "beside": with_observer})
    assert cluster.refused("west", "across") == {"NOT_ENOUGH_REPLICAS"}
    cluster.await_led("south", {"across": alone, "beside": with_observer})
    cluster.kill("west-1", "west-2")
    cluster.await_led(
        "east", {"across": [Led(leader, frozenset({4, 5, 6})) for leader in (4, 5)], "beside": Led(3, frozenset({3}))}
    )
    assert cluster.produce("east", "across", [b"after"]) == {""}
    cluster.heal()
    cluster.start()
    in_sync = frozenset({1, 2, 4, 5})
    cluster.await_led("west", {"across": [Led(4, in_sync), Led(5, in_sync)], "beside": Led(3, in_sync | {3})})
    assert elect(cluster, ElectionType.PREFERRED, *topics) == dict.fromkeys(topics, "")
    cluster.await_led("west", dict.fromkeys(topics, Led(1, in_sync)))
    assert cluster.read("east", "across", 51) == [*BEFORE, b"after"]
    assert cluster.read("east", "beside", 51) == [*BEFORE, b"during"]


def test_an_observer_that_lags_is_promoted_when_it_has_caught_up(cluster: Stretched) -> None:
    cluster.make("west", observed("under-min-isr"))
    cluster.await_led("west", {"under-min-isr": Led(2, SYNC)})
    throttle(cluster, "under-min-isr", rate=1)
    assert cluster.produce("west", "under-min-isr", [bytes(10_000)] * 300) == {""}
    cluster.kill("west-2")
    cluster.await_brokers("west", fenced={2})
    cluster.await_led("west", {"under-min-isr": Led(3, frozenset({3}))})
    assert cluster.refused("west", "under-min-isr") == {"NOT_ENOUGH_REPLICAS"}
    status = cluster.status("west", "under-min-isr")
    assert all(status[observer].log_end < 300 and not status[observer].is_caught_up for observer in OBSERVERS)
    throttle(cluster, "under-min-isr", rate=None)
    cluster.await_led("west", {"under-min-isr": joined(3, 5, 6)})
    assert cluster.produce("west", "under-min-isr", [b"after"]) == {""}


def test_stand_ins_leave_without_an_election_when_the_others_are_back(cluster: Stretched) -> None:
    policies = ("under-min-isr", "under-replicated")
    cluster.make("west", *map(observed, policies))
    cluster.await_led("west", dict.fromkeys(policies, Led(2, SYNC)))
    for topic in policies:
        assert cluster.produce("west", topic, BEFORE) == {""}
    cluster.await_even("west", *policies)
    whole = {topic: cluster.status("west", topic) for topic in policies}
    for replicas in whole.values():
        told = {
            broker: (r.is_leader, r.is_observer, r.is_isr_eligible, r.is_in_isr, r.log_start, r.log_end)
            for broker, r in replicas.items()
        }
        assert told == {
            2: (True, False, True, True, 0, 50),
            3: (False, False, True, True, 0, 50),
            5: (False, True, False, False, 0, 50),
            6: (False, True, False, False, 0, 50),
        }
    cluster.kill("west-3")
    cluster.await_led("west", dict.fromkeys(policies, joined(2, 5, 6)))
    epochs = {topic: cluster.leader_epoch("west", topic) for topic in policies}
    cluster.start()
    cluster.await_led("west", dict.fromkeys(policies, Led(2, SYNC)))
    assert {topic: cluster.leader_epoch("west", topic) for topic in policies} == epochs


def test_two_and_a_half_data_centres_lose_one_and_go_on_without_loss(cluster: Stretched) -> None:
    even = {"west": 2, "east": 2}
    assignments = {0: (1, 2, 4, 5, 3, 6)}
    constraints = placement("under-min-isr", even, {"west": 1, "east": 1})
    min_isr = {"min.insync.replicas": "3"}
    cluster.make(
        "west",
        NewTopic(
            "observed", assignments=assignments, configs={"isthmus.placement.constraints": constraints, **min_isr}
        ),
        NewTopic("plain", assignments={0: (1, 2, 4, 5)}, configs=min_isr),
    )
    cluster.await_led("west", dict.fromkeys(("observed", "plain"), Led(1, frozenset({1, 2, 4, 5}))))
    for topic in ("observed", "plain"):
        assert cluster.produce("west", topic, BEFORE) == {""}
    cluster.await_even("west", "observed")
    cluster.kill(*WEST)
    both = [Led(leader, frozenset({4, 5, 6})) for leader in (4, 5)]
    left = [Led(leader, frozenset({4, 5})) for leader in (4, 5)]
    cluster.await_led("east", {"observed": both, "plain": left})
    assert cluster.produce("east", "observed", [b"after"]) == {""}
    assert cluster.refused("east", "plain") == {"NOT_ENOUGH_REPLICAS"}
    assert cluster.read("east", "observed", 51) == [*BEFORE, b"after"]
    cluster.start()
    cluster.await_led("west", {"observed": [Led(leader, frozenset({1, 2, 4, 5})) for leader in (4, 5)]})


def test_without_two_of_three_voters_brokers_live_on_and_nothing_changes(cluster: Stretched) -> None:
    cluster.make("west", NewTopic("t", assignments={0: (2, 3, 5, 6)}, configs={"min.insync.replicas": "2"}))
    cluster.await_led("west", {"t": Led(2, frozenset({2, 3, 5, 6}))})
    cluster.kill("west-1", "south-1")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap("east"), "log_level": 2})
    with pytest.raises(KafkaException, match="TIMED_OUT"):
        admin.create_topics([KafkaTopic("new", 1, 1)], request_timeout=3, operation_timeout=2)["new"].result(60)
    assert cluster.produce("east", "t", BEFORE) == {""}
    assert cluster.read("west", "t", 50) == BEFORE
    cluster.start()
    cluster.make("east", NewTopic("newer", 1, 3))
    assert cluster.produce("west", "t", [b"after"]) == {""}


def test_a_swap_of_replicas_and_observers_moves_the_leader_for_good(cluster: Stretched) -> None:
    cluster.make("west", observed("under-min-isr"))
    cluster.await_led("west", {"under-min-isr": Led(2, SYNC)})
    assert cluster.produce("west", "under-min-isr", BEFORE) == {""}
    swapped = placement("under-min-isr", {"east": 2}, {"west": 2})
    cluster.configure("west", "under-min-isr", {"isthmus.placement.constraints": swapped})
    cluster.await_led(
        "west", {"under-min-isr": Led(2, OBSERVERS | {2})}
    )  # who observes now leads until another is elected
    assert elect(cluster, ElectionType.PREFERRED, "under-min-isr") == {"under-min-isr": ""}
    cluster.await_led("west", {"under-min-isr": led_by_observer(both=True)})
    status = cluster.status("west", "under-min-isr")
    assert {broker for broker, replica in status.items() if replica.is_observer} == SYNC
    cluster.kill(*WEST)
    cluster.await_brokers("east", fenced={1, 2, 3})
    assert cluster.produce("east", "under-min-isr", [b"after"]) == {""}
    cluster.start()
    cluster.await_even("east", "under-min-isr")
    assert elect(cluster, ElectionType.PREFERRED, "under-min-isr") == {"under-min-isr": "ELECTION_NOT_NEEDED"}
    cluster.await_led("west", {"under-min-isr": led_by_observer(both=True)})


def test_leaders_are_where_the_topic_likes_them_best(cluster: Stretched) -> None:
    whole = frozenset({2, 3, 5, 6})
    liked = NewTopic("t", assignments={0: (2, 3, 5, 6)}, configs={"isthmus.leader.preference": "south,east"})
    cluster.make("west", liked)
    cluster.await_led("west", {"t": [Led(leader, whole) for leader in (2, 5)]})
    elect(cluster, ElectionType.PREFERRED, "t")
    cluster.await_led("west", {"t": Led(5, whole)})
    cluster.configure("west", "t", {"isthmus.leader.preference": "west,east"})
    assert elect(cluster, ElectionType.PREFERRED, "t") == {"t": ""}
    cluster.await_led("west", {"t": Led(2, whole)})
    cluster.kill(*WEST)
    cluster.await_led("east", {"t": Led(5, frozenset({5, 6}))})


def throttle(cluster: Stretched, topic: str, rate: int | None) -> None:
    """Let the observers take so many bytes a second of a topic, or as many as they can."""
    cluster.configure("west", topic, {"follower.replication.throttled.replicas": None if rate is None else "*"})
    for observer in sorted(OBSERVERS):
        value = None if rate is None else str(rate)
        cluster.configure_broker("west", observer, {"follower.replication.throttled.rate": value})
