"""Replicas on three brokers: leaders and their hints, epochs, near reads, reassignments and elections.

Node 1 is the controller. The nodes 2 to 4 are brokers in the racks a, b and c.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from isthmus_wire.apis import ApiKey
from isthmus_wire.records import NewRecord, build_batch

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.talk import Talk, node
from tests.conformance.oracle.values import (
    LONG_AGO,
    NAMED,
    NOWHERE,
    batch,
    creatable,
    create,
    fetch,
    fetch_partition,
    fetch_topic,
    produce,
    store,
)

BROKERS = (2, 3, 4)
GROUP = Group(
    {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"},
    roles=("controller", "broker", "broker", "broker"),
    racks=("none", "a", "b", "c"),
)
_FETCH, _LIST = ApiKey.FETCH, ApiKey.LIST_PARTITION_REASSIGNMENTS
_REASSIGN = ApiKey.ALTER_PARTITION_REASSIGNMENTS
_TEN_SECONDS = 10_000


def placed(talk: Talk, name: str, *replicas: Sequence[int], configs: Sequence[tuple[str, str]] = ()) -> Any:
    """A new topic, one partition for each list of replicas, which every broker knows; returns its id."""
    wanted = creatable(name, -1, -1, assignments=list(enumerate(replicas)), configs=configs)
    created = talk.settle(
        lambda: talk.quiet(ApiKey.CREATE_TOPICS, **create(wanted)),
        lambda answer: answer["topics"][0]["error_code"] in ("none", "topic_already_exists"),
    )
    await_state(talk, name, lambda states: len(states) == len(replicas))
    for index, (leader, *_) in enumerate(replicas):
        talk.settle(partial(talk.quiet, ApiKey.LIST_OFFSETS, on=node(leader), **_latest(name, index)))
    return created["topics"][0]["topic_id"]


def _await_followers(talk: Talk, name: str, end: int, *followers: int) -> None:
    """Wait until followers know that everything is committed: they hear of it with their next fetch."""
    for follower in followers:
        talk.settle(
            partial(talk.quiet, _FETCH, 12, node(follower), **fetch(fetch_topic(name, NOWHERE, fetch_partition(0)))),
            lambda answer: answer["responses"][0]["partitions"][0]["high_watermark"] == end,
        )


def _latest(name: str, *indexes: int, at: int = -1, **fields: Any) -> dict[str, Any]:
    partitions = [{"partition_index": index, "current_leader_epoch": -1, "timestamp": at} for index in indexes]
    topics = [{"name": name, "partitions": partitions}]
    return {"replica_id": -1, "isolation_level": 0, "timeout": 0, "topics": topics, **fields}


def _described(name: str) -> dict[str, Any]:
    return {
        "topics": [{"topic_id": None, "name": name}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }


def await_state(talk: Talk, name: str, accept: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Wait until every broker knows the topic with such partitions, and no error."""
    for broker in BROKERS:
        talk.settle(
            partial(talk.quiet, ApiKey.METADATA, on=node(broker), **_described(name)),
            lambda answer: (
                answer["topics"][0]["error_code"] == "none"
                and all(one["error_code"] == "none" for one in answer["topics"][0]["partitions"])
                and accept(sorted(answer["topics"][0]["partitions"], key=lambda one: int(one["partition_index"])))
            ),
        )


@GROUP.exchange
def leaders_and_hints(talk: Talk) -> None:
    topic_id = placed(talk, "hints", [2, 3])
    store(talk, "hints", 0, batch(2), node(2))
    for on in map(node, BROKERS):
        for version in (3, 9, 10, NAMED, 13):
            talk.ask(ApiKey.PRODUCE, version, on, **produce("hints", topic_id, (0, batch(1))))
        _await_followers(talk, "hints", 7, 3)
        one = fetch_topic("hints", topic_id, fetch_partition(0))
        for version in (4, 10, 11, 12, 15, 16, 18):
            talk.ask(_FETCH, version, on, **fetch(one))
        for epoch in (0, 1, 7):
            late = fetch_topic("hints", topic_id, fetch_partition(0, current_leader_epoch=epoch))
            talk.ask(_FETCH, 18, on, **fetch(late))
        talk.ask(_FETCH, 18, on, **fetch(fetch_topic("hints", topic_id, fetch_partition(0, 99))))


@GROUP.exchange
def offsets_of_replicas(talk: Talk) -> None:
    placed(talk, "offsets", [2, 3])
    store(talk, "offsets", 0, batch(3), node(2))
    _await_followers(talk, "offsets", 3, 3)
    for on in map(node, BROKERS):
        for version in (1, 4, 7, 11):
            for at in (-1, -2, LONG_AGO + 1000):
                talk.ask(ApiKey.LIST_OFFSETS, version, on, **_latest("offsets", 0, at=at))
        talk.ask(ApiKey.LIST_OFFSETS, 11, on, **_latest("offsets", 0, replica_id=-2))
        partitions = [{"partition": 0, "current_leader_epoch": epoch, "leader_epoch": 0} for epoch in (-1, 0, 3)]
        for one in partitions:
            topics = [{"topic": "offsets", "partitions": [one]}]
            talk.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, on, replica_id=-1, topics=topics)
        removed = [{"name": "offsets", "partitions": [{"partition_index": 0, "offset": 1}]}]
        talk.ask(ApiKey.DELETE_RECORDS, 2, on, topics=removed, timeout=_TEN_SECONDS)


@GROUP.exchange
def fetches_of_strangers(talk: Talk) -> None:
    topic_id = placed(talk, "strangers", [2, 3])
    store(talk, "strangers", 0, batch(2), node(2))
    _await_followers(talk, "strangers", 2, 3)
    one = fetch_topic("strangers", topic_id, fetch_partition(0))
    for replica in (1, 4, 9):
        for on in (node(2), node(3), node(4)):
            talk.ask(_FETCH, 12, on, **fetch(one, replica_id=replica))
            state = {"replica_id": replica, "replica_epoch": -1}
            talk.ask(_FETCH, 18, on, **fetch(one, replica_state=state))


def move_leader(talk: Talk, name: str, *replicas: int, index: int = 0) -> None:
    """Make the first replica the preferred leader, and then the leader."""
    talk.quiet(_REASSIGN, **_moved(name, (index, replicas)))
    await_state(talk, name, lambda states: states[index]["replica_nodes"] == list(replicas))
    wanted = [{"topic": name, "partitions": [index]}]
    talk.quiet(ApiKey.ELECT_LEADERS, election_type=0, topic_partitions=wanted, timeout=_TEN_SECONDS)
    await_state(talk, name, lambda states: states[index]["leader_id"] == replicas[0])


def _moved(name: str, *targets: tuple[int, Sequence[int] | None], **fields: Any) -> dict[str, Any]:
    partitions = [{"partition_index": index, "replicas": replicas} for index, replicas in targets]
    return {"timeout": _TEN_SECONDS, "topics": [{"name": name, "partitions": partitions}], **fields}


@GROUP.exchange
def epochs_of_several_leaders(talk: Talk) -> None:
    topic_id = placed(talk, "epochs", [2, 3, 4])
    store(talk, "epochs", 0, batch(2), node(2))
    move_leader(talk, "epochs", 3, 4, 2)
    store(talk, "epochs", 0, batch(3), node(3))
    move_leader(talk, "epochs", 4, 2, 3)
    store(talk, "epochs", 0, batch(1), node(4))
    _await_followers(talk, "epochs", 6, 2, 3)
    for on in map(node, BROKERS):
        talk.ask(ApiKey.METADATA, 13, on, **_described("epochs"))
    for epoch in range(-1, 5):
        topics = [
            {"topic": "epochs", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}]}
        ]
        talk.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, node(4), replica_id=-1, topics=topics)
        for offset in (0, 1, 2, 3, 5, 6, 7):
            one = fetch_partition(0, offset, last_fetched_epoch=epoch)
            talk.ask(_FETCH, 18, node(4), **fetch(fetch_topic("epochs", topic_id, one)))
        current = fetch_partition(0, current_leader_epoch=epoch)
        for on in map(node, BROKERS):
            talk.ask(_FETCH, 18, on, **fetch(fetch_topic("epochs", topic_id, current)))


@GROUP.exchange
def near_replicas(talk: Talk) -> None:
    topic_id = placed(talk, "near", [2, 3])
    store(talk, "near", 0, batch(2), node(2))
    _await_followers(talk, "near", 2, 3)
    for rack in ("a", "b", "c", "z", ""):
        for version in (10, 11, 12, 18):
            for offset in (0, 2):
                one = fetch_topic("near", topic_id, fetch_partition(0, offset))
                talk.ask(_FETCH, version, node(2), **fetch(one, rack_id=rack))
        one = fetch_topic("near", topic_id, fetch_partition(0))
        talk.ask(_FETCH, 18, node(3), **fetch(one, rack_id=rack))
    talk.ask(
        _FETCH, 18, node(2), **fetch(fetch_topic("near", topic_id, fetch_partition(0)), rack_id="b", session_epoch=0)
    )


@GROUP.exchange
def assignments_of_new_topics(talk: Talk) -> None:
    for factor in (-1, 0, 1, 3, 4, -2):
        talk.ask(ApiKey.CREATE_TOPICS, 7, **create(creatable(f"factor-{factor}", 1, factor), validate_only=True))
    lists: Sequence[Sequence[tuple[int, Sequence[int]]]] = (
        [(0, [2, 3])],
        [(0, [2, 2])],
        [(0, [9])],
        [(0, [2, 9])],
        [(0, [1])],
        [(0, [])],
        [(0, [-1])],
        [(0, [2]), (1, [3, 4])],
        [(1, [2])],
        [(0, [2]), (2, [3])],
        [(0, [2]), (0, [3])],
    )
    for assignments in lists:
        talk.ask(
            ApiKey.CREATE_TOPICS,
            7,
            **create(creatable("assigned", -1, -1, assignments=assignments), validate_only=True),
        )
    talk.ask(ApiKey.CREATE_TOPICS, 7, **create(creatable("both", 1, 1, assignments=[(0, [2])]), validate_only=True))


@GROUP.exchange
def assignments_of_new_partitions(talk: Talk) -> None:
    placed(talk, "grown", [2, 3])
    for count, assigned in (
        (2, [[2]]),
        (2, [[2, 2]]),
        (2, [[2, 9]]),
        (2, [[]]),
        (2, [[2, 3], [3, 4]]),
        (2, []),
        (3, [[2, 3]]),
        (3, [[2, 3], [4]]),
        (1, None),
        (0, None),
        (3, [[3, 4], [4, 2]]),
    ):
        entries = None if assigned is None else [{"broker_ids": brokers} for brokers in assigned]
        wanted = [{"name": "grown", "count": count, "assignments": entries}]
        talk.ask(ApiKey.CREATE_PARTITIONS, 3, topics=wanted, timeout=_TEN_SECONDS, validate_only=False)
    await_state(talk, "grown", lambda states: len(states) == 3)
    talk.ask(ApiKey.METADATA, 13, **_described("grown"))


@GROUP.exchange
def reassignments_that_are_refused(talk: Talk) -> None:
    placed(talk, "stays", [2, 3], [3, 4])
    for version in (0, 1):
        for replicas in (None, [], [2, 2], [9], [2, 9], [-1], [1]):
            talk.ask(_REASSIGN, version, **_moved("stays", (0, replicas)))
        talk.ask(_REASSIGN, version, **_moved("stays", (9, [2, 3])))
        talk.ask(_REASSIGN, version, **_moved("nowhere", (0, [2, 3])))
        talk.ask(_REASSIGN, version, **_moved("nowhere", (0, None)))
        talk.ask(_REASSIGN, version, **_moved("stays", (0, [2, 3]), (9, None), (1, None)))
        talk.ask(_REASSIGN, version, timeout=_TEN_SECONDS, topics=[])
    for replicas in ([2], [2, 3, 4], [4, 3]):
        talk.ask(_REASSIGN, 1, **_moved("stays", (9, replicas), allow_replication_factor_change=False))
    talk.ask(_REASSIGN, 1, **_moved("stays", (0, [2]), allow_replication_factor_change=False))
    talk.ask(_REASSIGN, 1, **_moved("stays", (0, [2, 3, 4]), allow_replication_factor_change=False))


def _listed(*topics: tuple[str, Sequence[int]]) -> dict[str, Any]:
    return {
        "timeout": _TEN_SECONDS,
        "topics": [{"name": name, "partition_indexes": indexes} for name, indexes in topics],
    }


@GROUP.exchange
def listings_without_reassignments(talk: Talk) -> None:
    placed(talk, "listed", [2, 3])
    talk.ask(_LIST, 0, timeout=_TEN_SECONDS, topics=None)
    talk.ask(_LIST, 0, **_listed())
    for name, indexes in (("listed", [0]), ("listed", []), ("listed", [9]), ("nowhere", [0])):
        talk.ask(_LIST, 0, **_listed((name, indexes)))


@GROUP.exchange
def a_reassignment(talk: Talk) -> None:
    placed(talk, "moves", [2, 3])
    store(talk, "moves", 0, batch(5), node(2))
    talk.ask(_REASSIGN, 1, **_moved("moves", (0, [3, 4])))
    await_state(talk, "moves", lambda states: states[0]["replica_nodes"] == states[0]["isr_nodes"] == [3, 4])
    talk.ask(_LIST, 0, **_listed(("moves", [0])))
    talk.ask(ApiKey.METADATA, 13, **_described("moves"))
    talk.ask(_REASSIGN, 1, **_moved("moves", (0, [4, 3])))
    await_state(talk, "moves", lambda states: states[0]["replica_nodes"] == [4, 3])
    talk.ask(ApiKey.METADATA, 13, **_described("moves"))
    talk.ask(_REASSIGN, 1, **_moved("moves", (0, [4, 3])))
    talk.ask(_REASSIGN, 1, **_moved("moves", (0, [4])))
    await_state(talk, "moves", lambda states: states[0]["replica_nodes"] == [4])
    talk.ask(ApiKey.METADATA, 13, **_described("moves"))


@GROUP.exchange
def reassignments_over_reassignments(talk: Talk) -> None:
    """The copies are throttled to a byte a second, so that none of them ends."""
    _throttle(talk, "1")
    throttled = [("leader.replication.throttled.replicas", "*"), ("follower.replication.throttled.replicas", "*")]
    placed(talk, "slow", [2, 3], configs=[*throttled, ("max.message.bytes", "2000000")])
    for _ in range(8):
        store(talk, "slow", 0, build_batch([NewRecord(None, bytes(900_000), LONG_AGO)]), node(2))
    one = ("slow", [0])
    for replicas in ([3, 4], [3, 4], [4, 2], [2, 4], [2, 3, 4], [4], [2, 3], [3, 4], None, None):
        talk.ask(_REASSIGN, 1, **_moved("slow", (0, replicas)))
        talk.ask(_LIST, 0, **_listed(one))
    _throttle(talk, None)


def _throttle(talk: Talk, rate: str | None) -> None:
    names = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    configs = [{"name": name, "config_operation": int(rate is None), "value": rate} for name in names]
    resources = [{"resource_type": 4, "resource_name": str(broker), "configs": configs} for broker in BROKERS]
    talk.quiet(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, validate_only=False)
    for broker in BROKERS:
        wanted = [{"resource_type": 4, "resource_name": str(broker), "configuration_keys": names}]
        talk.settle(
            partial(
                talk.quiet,
                ApiKey.DESCRIBE_CONFIGS,
                on=node(broker),
                resources=wanted,
                include_synonyms=False,
                include_documentation=False,
            ),
            lambda answer: all(
                config["value"] == (rate or str(2**63 - 1)) for config in answer["results"][0]["configs"]
            ),
        )


@GROUP.exchange
def elections(talk: Talk) -> None:
    placed(talk, "elected", [2, 3], [3, 4])
    for version in (0, 1, 2):
        for kind in (0, 1):
            for partitions in ([0], [0, 1], [9], []):
                wanted = [{"topic": "elected", "partitions": partitions}]
                talk.ask(
                    ApiKey.ELECT_LEADERS, version, election_type=kind, topic_partitions=wanted, timeout=_TEN_SECONDS
                )
            wanted = [{"topic": "nowhere", "partitions": [0]}]
            talk.ask(ApiKey.ELECT_LEADERS, version, election_type=kind, topic_partitions=wanted, timeout=_TEN_SECONDS)
            talk.ask(ApiKey.ELECT_LEADERS, version, election_type=kind, topic_partitions=None, timeout=_TEN_SECONDS)
    talk.ask(ApiKey.ELECT_LEADERS, 2, election_type=7, topic_partitions=None, timeout=_TEN_SECONDS)
    talk.quiet(_REASSIGN, **_moved("elected", (0, [3, 2])))
    await_state(talk, "elected", lambda states: states[0]["replica_nodes"] == [3, 2])
    wanted = [{"topic": "elected", "partitions": [0, 1]}]
    talk.ask(ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=wanted, timeout=_TEN_SECONDS)
    await_state(talk, "elected", lambda states: states[0]["leader_id"] == 3)
    talk.ask(ApiKey.METADATA, 13, **_described("elected"))
    talk.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "elected"}], response_partition_limit=9, cursor=None)
