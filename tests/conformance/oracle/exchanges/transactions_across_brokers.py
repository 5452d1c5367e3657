"""Transactions of both protocols on three brokers: each step at the right broker and at the wrong ones, and after leaders moved.

Node 1 is the controller. Each of the brokers 2 to 4 leads one partition of the topics of transactions, offsets and records.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID

from isthmus_wire.apis import ALL_VERSIONS, ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.exchanges.offsets import commit
from tests.conformance.oracle.exchanges.replicas import BROKERS, move_leader, placed
from tests.conformance.oracle.talk import Talk, node
from tests.conformance.oracle.transactional import (
    OLD_END,
    OLD_PRODUCE,
    Producer,
    add_offsets,
    add_partitions,
    await_completion,
    check_as_broker,
    commit_offsets,
    coordinator_of,
    describe,
    describe_producers,
    end,
    ended,
    init_producer,
    set_transaction_version,
    started,
    write,
)
from tests.conformance.oracle.values import NAMED, fetch, fetch_partition, fetch_topic

GROUP = Group(
    {
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.min.isr": "1",
        "log.retention.ms": "-1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    },
    roles=("controller", "broker", "broker", "broker"),
)
NODES: Final = tuple(map(node, BROKERS))
_CYCLE: Final = ((2, 3, 4), (3, 4, 2), (4, 2, 3))
"""Replicas of three partitions, one led by each broker."""
_PAIRS: Final = ((2, 3), (3, 4), (4, 2))
"""The same with two replicas each."""


def _others(on: str) -> list[str]:
    return [other for other in NODES if other != on]


def _id_at(talk: Talk, broker: int, prefix: str, kind: int = 1) -> str:
    """An id with this prefix whose coordinator is this broker."""

    def names() -> Iterator[str]:
        for number in range(100):
            yield f"{prefix}-{number}"

    return next(name for name in names() if coordinator_of(talk, name, kind) == node(broker))


def _group_at(talk: Talk, broker: int, name: str) -> str:
    """A group whose coordinator is this broker, and serves."""
    group = _id_at(talk, broker, name, 0)
    groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}]
    talk.settle(partial(talk.quiet, ApiKey.OFFSET_FETCH, on=node(broker), groups=groups, require_stable=False))
    return group


def _started_at(talk: Talk, broker: int, prefix: str) -> Producer:
    return started(talk, _id_at(talk, broker, prefix))


def _versions(api: ApiKey) -> range:
    lowest, highest = ALL_VERSIONS[api]
    return range(lowest, highest + 1)


def _read(
    talk: Talk, topic: str, topic_id: UUID, on: str, isolation: int = 1, *, epoch: int = -1, version: int = NAMED
) -> Any:
    one = fetch_partition(0, current_leader_epoch=epoch)
    return talk.ask(ApiKey.FETCH, version, on, **fetch(fetch_topic(topic, topic_id, one), isolation_level=isolation))


def _await_replicas(talk: Talk, topic: str, end: int, stable: int, *brokers: int) -> None:
    """Wait until replicas know that everything is committed, and this last stable offset."""

    def is_known(answer: Any) -> bool:
        partition = answer["responses"][0]["partitions"][0]
        return bool((partition["high_watermark"], partition["last_stable_offset"]) == (end, stable))

    one = fetch_topic(topic, UUID(int=0), fetch_partition(0))
    for broker in brokers:
        talk.settle(partial(talk.quiet, ApiKey.FETCH, NAMED, node(broker), **fetch(one, isolation_level=1)), is_known)


def _list_offsets(talk: Talk, topic: str, on: str, isolation: int, epoch: int = -1) -> None:
    for timestamp in (-1, -2, -3, 1_600_000_000_000):
        partitions = [{"partition_index": 0, "current_leader_epoch": epoch, "timestamp": timestamp}]
        topics = [{"name": topic, "partitions": partitions}]
        talk.ask(ApiKey.LIST_OFFSETS, 11, on, replica_id=-1, isolation_level=isolation, topics=topics, timeout=0)


def _offsets_of(talk: Talk, group: str, on: str) -> None:
    groups = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}]
    for stable in (False, True):
        talk.ask(ApiKey.OFFSET_FETCH, 9, on, groups=groups, require_stable=stable)


def _mark(talk: Talk, of: Producer, topic: str, on: str, *, epoch: int = 0, level: int = 2, version: int = 2) -> Any:
    marker = {
        "producer_id": of.id,
        "producer_epoch": of.epoch,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [0, 1, 7]}],
        "coordinator_epoch": epoch,
        "transaction_version": level,
    }
    return talk.ask(ApiKey.WRITE_TXN_MARKERS, version, on, markers=[marker])


@GROUP.exchange
def places(talk: Talk) -> None:
    """The internal topics, so that every coordinator has a known broker."""
    compacted = [("cleanup.policy", "compact")]
    placed(talk, "__transaction_state", *_CYCLE, configs=compacted)
    placed(talk, "__consumer_offsets", *_CYCLE, configs=compacted)
    for on in NODES:
        for version in _versions(ApiKey.FIND_COORDINATOR)[1:]:
            keys = ("one", "two", "three", "four", "five")
            talk.ask(ApiKey.FIND_COORDINATOR, version, on, key="one", key_type=1, coordinator_keys=keys)


@GROUP.exchange
def producers_at_other_brokers(talk: Talk) -> None:
    producer = _started_at(talk, 3, "init")
    anybody: dict[str, Any] = {"transactional_id": None, "transaction_timeout": 1}
    for on in NODES:
        talk.settle(partial(talk.quiet, ApiKey.INIT_PRODUCER_ID, on=on, **anybody))
        talk.ask(ApiKey.INIT_PRODUCER_ID, 5, on, **anybody)
        for version in _versions(ApiKey.INIT_PRODUCER_ID):
            init_producer(talk, producer.name, version, on=on)
    for on in _others(producer.coordinator):
        for version in (3, 4, 5):
            init_producer(talk, producer.name, version, of=producer, on=on)
            init_producer(talk, producer.name, version, of=producer._replace(epoch=99), on=on)
        init_producer(talk, producer.name, timeout=0, on=on)
        init_producer(talk, "", on=on)
    describe(talk, producer.name, on=producer.coordinator)


@GROUP.exchange
def steps_at_other_brokers(talk: Talk) -> None:
    placed(talk, "steps", *_PAIRS)
    group = _group_at(talk, 2, "steps")
    producer = _started_at(talk, 4, "steps")
    stale = producer._replace(epoch=77)
    for on in _others(producer.coordinator):
        for one in (producer, stale, producer._replace(name="")):
            for version in range(4):
                add_partitions(talk, one, ("steps", [0, 1]), ("nowhere", [0]), version=version, on=on)
            for version in _versions(ApiKey.ADD_OFFSETS_TO_TXN):
                add_offsets(talk, one, group, version, on)
            for version in _versions(ApiKey.END_TXN):
                end(talk, one, True, version, on)
        describe(talk, producer.name, "nobody", on=on)
    describe(talk, producer.name, on=producer.coordinator)


@GROUP.exchange
def checks_at_other_brokers(talk: Talk) -> None:
    placed(talk, "checks", *_PAIRS)
    at_two, at_three = _started_at(talk, 2, "checks"), _started_at(talk, 3, "checks")
    for on in NODES:
        for version in (4, 5):
            for verify_only in (True, False):
                one, other = ((of, verify_only, "checks", [0, 2]) for of in (at_two, at_three))
                check_as_broker(talk, one, other, version=version, on=on)
    describe(talk, at_two.name, at_three.name, on=node(2))
    describe(talk, at_two.name, at_three.name, on=node(3))
    for producer in (at_two, at_three):
        ended(talk, producer, False)


def _written_everywhere(talk: Talk, of: Producer, topic: str, version: int) -> None:
    for index, on in enumerate(NODES):
        write(talk, of, topic, index, 0, version, 2, on)


@GROUP.exchange
def an_old_transaction_over_three_brokers(talk: Talk) -> None:
    topic_id = placed(talk, "old", *_PAIRS)
    producer = _started_at(talk, 2, "old")
    for version, commits in ((0, True), (2, False), (OLD_END, True)):
        _written_everywhere(talk, producer, "old", OLD_PRODUCE)
        add_partitions(talk, producer, ("old", [0, 1, 2]), version=min(version, 3))
        for index, on in enumerate(NODES):
            write(talk, producer, "old", index, version, OLD_PRODUCE, 2, on)
        describe(talk, producer.name, on=producer.coordinator)
        _describe_everywhere(talk, "old")
        ended(talk, producer, commits, version)
        _describe_everywhere(talk, "old")
    for isolation in (0, 1):
        _read(talk, "old", topic_id, node(2), isolation)


def _describe_everywhere(talk: Talk, topic: str) -> None:
    for on in NODES:
        describe_producers(talk, topic, 0, 1, 2, on=on)


@GROUP.exchange
def a_new_transaction_over_three_brokers(talk: Talk) -> None:
    topic_id = placed(talk, "new", *_PAIRS)
    producer = _started_at(talk, 3, "new")
    for commits in (True, False):
        _written_everywhere(talk, producer, "new", NAMED)
        describe(talk, producer.name, on=producer.coordinator)
        _describe_everywhere(talk, "new")
        following = ended(talk, producer, commits)
        _describe_everywhere(talk, "new")
        for index, on in enumerate(NODES):
            write(talk, producer, "new", index, 2, on=on)
        producer = following
    for isolation in (0, 1):
        _read(talk, "new", topic_id, node(2), isolation)


@GROUP.exchange
def batches_at_followers(talk: Talk) -> None:
    topic_id = placed(talk, "batches", (2, 3))
    producer = _started_at(talk, 2, "batches")
    for on in _others(node(2)):
        for version in range(3, 13):
            write(talk, producer, "batches", 0, version=version, on=on)
        write(talk, producer._replace(epoch=77), "batches", on=on)
        write(talk, producer._replace(name="nobody"), "batches", on=on)
        write(talk, producer, "batches", acks=1, on=on)
    describe(talk, producer.name, on=producer.coordinator)
    write(talk, producer, "batches", on=node(2))
    for on in _others(node(2)):
        write(talk, producer, "batches", 0, 1, on=on)
    ended(talk, producer, True)
    _read(talk, "batches", topic_id, node(2))


@GROUP.exchange
def markers_at_other_brokers(talk: Talk) -> None:
    topic_id = placed(talk, "marked", (2, 3), (3, 4))
    producer = _started_at(talk, 4, "marked")
    write(talk, producer, "marked", 0, on=node(2))
    write(talk, producer, "marked", 1, on=node(3))
    _mark(talk, producer._replace(epoch=-1), "marked", node(3))
    for version, level in ((1, 0), (1, 2), (2, 0), (2, 2)):
        _mark(talk, producer, "marked", node(4), level=level, version=version)
    _describe_everywhere(talk, "marked")
    _mark(talk, producer._replace(epoch=producer.epoch + 1), "marked", node(3), epoch=3)
    _describe_everywhere(talk, "marked")
    _read(talk, "marked", topic_id, node(2))
    _mark(talk, producer._replace(epoch=producer.epoch + 1), "marked", node(2), epoch=0, version=1, level=0)
    _describe_everywhere(talk, "marked")
    _read(talk, "marked", topic_id, node(2))
    describe(talk, producer.name, on=producer.coordinator)


@GROUP.exchange
def committed_reads_at_followers(talk: Talk) -> None:
    topic_id = placed(talk, "reads", (2, 3))
    producer = _started_at(talk, 4, "reads")
    write(talk, producer, "reads", count=2, on=node(2))
    producer = ended(talk, producer, False)
    write(talk, producer, "reads", count=2, on=node(2))
    producer = ended(talk, producer, True)
    write(talk, producer, "reads", count=3, on=node(2))
    _await_replicas(talk, "reads", 9, 6, 2, 3)
    for on in NODES:
        for version in (4, 10, 11, NAMED, 18):
            for isolation in (0, 1):
                _read(talk, "reads", topic_id, on, isolation, version=version)
        for epoch in (0, 1, 9):
            _read(talk, "reads", topic_id, on, epoch=epoch)
            _list_offsets(talk, "reads", on, 1, epoch)
        _list_offsets(talk, "reads", on, 0)
        _list_offsets(talk, "reads", on, 1)
    ended(talk, producer, True)
    _await_replicas(talk, "reads", 10, 10, 2, 3)
    for on in NODES:
        _read(talk, "reads", topic_id, on)
        _list_offsets(talk, "reads", on, 1)


@GROUP.exchange
def a_leader_that_moves_inside_a_transaction(talk: Talk) -> None:
    topic_id = placed(talk, "moves", (2, 3))
    producer = _started_at(talk, 4, "moves")
    write(talk, producer, "moves", count=2, on=node(2))
    producer = ended(talk, producer, False)
    write(talk, producer, "moves", count=2, on=node(2))
    move_leader(talk, "moves", 3, 2)
    _await_replicas(talk, "moves", 5, 3, 2, 3)
    for on in NODES:
        describe_producers(talk, "moves", on=on)
        for epoch in (0, 1, 2):
            _read(talk, "moves", topic_id, on, epoch=epoch)
            _list_offsets(talk, "moves", on, 1, epoch)
    write(talk, producer, "moves", 0, 2, on=node(2))
    write(talk, producer, "moves", 0, 2, on=node(3))
    write(talk, producer, "moves", 0, 2, on=node(3))
    ended(talk, producer, True)
    describe_producers(talk, "moves", on=node(3))
    _read(talk, "moves", topic_id, node(3))


@GROUP.exchange
def a_coordinator_that_moves(talk: Talk) -> None:
    """The last partition of the topic's three is that of broker 4; it moves to broker 2, and back."""
    topic_id = placed(talk, "handed", *_PAIRS)
    old, new = _started_at(talk, 4, "handed-old"), _started_at(talk, 4, "handed-new")
    add_partitions(talk, old, ("handed", [0, 1]))
    write(talk, old, "handed", version=OLD_PRODUCE, on=node(2))
    write(talk, new, "handed", on=node(2))
    _move_coordinator(talk, old.name, 2, 3, 4)
    old, new = (one._replace(coordinator=node(2)) for one in (old, new))
    for one in (old, new):
        init_producer(talk, one.name, on=node(4))
        end(talk, one, True, on=node(4))
        describe(talk, one.name, on=node(2))
    _producers_listed(talk, "handed-.*")
    write(talk, old, "handed", 1, version=OLD_PRODUCE, on=node(3))
    write(talk, new, "handed", 1, on=node(3))
    ended(talk, old, True, OLD_END)
    following = ended(talk, new, False)
    _describe_everywhere(talk, "handed")
    _read(talk, "handed", topic_id, node(2))
    end(talk, new, False)
    init_producer(talk, following.name, of=following)
    _move_coordinator(talk, old.name, 4, 2, 3)
    for one in (old, new):
        describe(talk, one.name, on=node(4))


def _move_coordinator(talk: Talk, name: str, *replicas: int) -> None:
    """Make another broker the leader of the last partition, that of this id, and wait until all brokers act on it."""
    move_leader(talk, "__transaction_state", *replicas, index=2)

    def answer_of(broker: int) -> Any:
        return talk.quiet(ApiKey.DESCRIBE_TRANSACTIONS, on=node(broker), transactional_ids=(name,))

    leader, *followers = replicas
    talk.settle(partial(answer_of, leader))
    for follower in followers:
        talk.settle(
            partial(answer_of, follower),
            lambda answer: answer["transaction_states"][0]["error_code"] == "not_coordinator",
        )


def _producers_listed(talk: Talk, pattern: str) -> None:
    for on in NODES:
        for states in ((), ("Ongoing",), ("Nonsense",)):
            talk.ask(ApiKey.LIST_TRANSACTIONS, on=on, state_filters=states, transactional_id_pattern=pattern)


@GROUP.exchange
def lists_at_every_broker(talk: Talk) -> None:
    placed(talk, "listed", (2, 3))
    producers = [_started_at(talk, broker, "listed") for broker in BROKERS]
    write(talk, producers[1], "listed", on=node(2))
    _producers_listed(talk, "listed-.*")
    for on in NODES:
        for version in (0, 1):
            ids = tuple(producer.id for producer in producers)
            talk.ask(ApiKey.LIST_TRANSACTIONS, version, on, producer_id_filters=ids)
        describe(talk, *(producer.name for producer in producers), "", on=on)
    ended(talk, producers[1], False)


@GROUP.exchange
def offsets_with_two_coordinators(talk: Talk) -> None:
    topic_id = placed(talk, "sent", (2, 3))
    group = _group_at(talk, 3, "sent")
    producer = _started_at(talk, 2, "sent")
    for version in _versions(ApiKey.TXN_OFFSET_COMMIT):
        for on in _others(node(3)):
            commit_offsets(talk, producer, group, ("sent", 0, 5), ("nowhere", 0, 1), version=version, on=on)
    for version in (4, 5):
        commit_offsets(talk, producer, group, ("sent", 9, 5), ("nowhere", 0, 1), version=version, on=node(3))
        commit_offsets(talk, producer._replace(epoch=77), group, ("nowhere", 0, 1), version=version, on=node(3))
    commit_offsets(talk, producer._replace(epoch=77), group, ("sent", 0, 1), ("nowhere", 0, 1), on=node(3))
    commit_offsets(talk, producer, "", ("sent", 0, 1), ("nowhere", 0, 1), on=node(3))
    describe(talk, producer.name, on=producer.coordinator)
    commit_offsets(talk, producer, group, ("sent", 0, 5), version=4, on=node(3))
    add_offsets(talk, producer, group)
    for version in range(5):
        commit_offsets(talk, producer, group, ("sent", 0, 5), ("nowhere", 0, 1), version=version, on=node(3))
    _everything_of(talk, producer, group)
    ended(talk, producer, True, OLD_END)
    _everything_of(talk, producer, group)
    second = started(talk, producer.name)
    commit_offsets(talk, second, group, ("sent", 0, 8), on=node(3))
    commit(talk, group, ("sent", topic_id, [(0, 3, -1, "plain")]), version=9, on=node(3))
    commit_offsets(talk, producer, group, ("sent", 0, 12), on=node(3))
    commit_offsets(talk, producer, group, ("sent", 0, 12), version=4, on=node(3))
    _everything_of(talk, second, group)
    third = ended(talk, second, True)
    commit_offsets(talk, second, group, ("sent", 0, 12), on=node(3))
    commit_offsets(talk, third, group, ("sent", 0, 12), on=node(3))
    ended(talk, third, False)
    _everything_of(talk, third, group)


@GROUP.exchange
def plain_commits_at_other_brokers(talk: Talk) -> None:
    topic_id = placed(talk, "plain", (2, 3))
    group = _group_at(talk, 3, "plain")
    known, missing = ("plain", topic_id, [(0, 3, -1, "")]), ("plain", topic_id, [(9, 3, -1, "")])
    unknown = ("nowhere", UUID(int=99), [(0, 3, -1, "")])
    for on in NODES:
        for version in (2, 8, 9, 10):
            commit(talk, group, known, version=version, on=on)
            commit(talk, group, unknown, version=version, on=on)
            commit(talk, group, known, missing, unknown, version=version, on=on)
            commit(talk, group, missing, version=version, on=on, member="nobody", epoch=3)
            commit(talk, "", unknown, version=version, on=on)


def _everything_of(talk: Talk, producer: Producer, group: str) -> None:
    describe(talk, producer.name, on=producer.coordinator)
    for on in NODES:
        _offsets_of(talk, group, on)


@GROUP.exchange
def zombies_at_every_broker(talk: Talk) -> None:
    topic_id = placed(talk, "zombies", *_PAIRS)
    group = _group_at(talk, 4, "zombies")
    before = _started_at(talk, 3, "zombies")
    _written_everywhere(talk, before, "zombies", NAMED)
    init_producer(talk, before.name, on=before.coordinator)
    await_completion(talk, before.name, before.coordinator)
    after = started(talk, before.name)
    for index, on in enumerate(NODES):
        for version in (OLD_PRODUCE, NAMED):
            write(talk, before, "zombies", index, 2, version, on=on)
        write(talk, before._replace(id=9_000_010), "zombies", index, on=on)
    add_partitions(talk, before, ("zombies", [0]))
    check_as_broker(talk, (before, True, "zombies", [0]), (before, False, "zombies", [1]))
    add_offsets(talk, before, group)
    for version in (4, 5):
        commit_offsets(talk, before, group, ("zombies", 0, 1), version=version, on=node(4))
        end(talk, before, True, version)
    _written_everywhere(talk, after, "zombies", NAMED)
    ended(talk, after, True)
    _describe_everywhere(talk, "zombies")
    _read(talk, "zombies", topic_id, node(2))


@GROUP.exchange
def timeouts_at_every_broker(talk: Talk) -> None:
    placed(talk, "late", *_PAIRS)
    name = _id_at(talk, 2, "late")
    producer = started(talk, name, timeout=3000)
    _written_everywhere(talk, producer, "late", NAMED)
    await_completion(talk, name, producer.coordinator)
    describe(talk, name, on=producer.coordinator)
    _describe_everywhere(talk, "late")
    for index, on in enumerate(NODES):
        write(talk, producer, "late", index, 2, on=on)
    end(talk, producer, True)
    end(talk, producer, False)


@GROUP.exchange
def lower_transaction_versions_at_every_broker(talk: Talk) -> None:
    topic_id = placed(talk, "lower", *_PAIRS)
    group = _group_at(talk, 3, "lower")
    for level in (1, 0):
        set_transaction_version(talk, level, 2, *NODES)
        producer = _started_at(talk, 4, f"lower-{level}")
        for on in _others(producer.coordinator):
            add_partitions(talk, producer, ("lower", [0]), on=on)
            end(talk, producer, True, on=on)
        add_partitions(talk, producer, ("lower", [0, 1]))
        _written_everywhere(talk, producer, "lower", OLD_PRODUCE)
        write(talk, producer, "lower", 1, 2, OLD_PRODUCE, on=node(4))
        add_offsets(talk, producer, group)
        commit_offsets(talk, producer, group, ("lower", 0, level + 1), version=4, on=node(3))
        commit_offsets(talk, producer, group, ("lower", 0, level + 1), version=4, on=node(2))
        describe(talk, producer.name, on=producer.coordinator)
        ended(talk, producer, True, OLD_END)
        _everything_of(talk, producer, group)
        _describe_everywhere(talk, "lower")
        _read(talk, "lower", topic_id, node(2))
    set_transaction_version(talk, 2, 1, *NODES)
