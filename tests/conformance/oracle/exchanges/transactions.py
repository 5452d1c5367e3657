"""Transactions of both protocols, and the errors of each step; the coordinators and the partitions are on one node."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from isthmus_wire.apis import ApiKey
from isthmus_wire.records import TRANSACTIONAL_BIT

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.exchanges.offsets import commit, fetched
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.values import NAMED, NOWHERE, batch, fetch, fetch_partition, fetch_topic, produce

GROUP = Group(
    {
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
)
_BUSY = {"concurrent_transactions", "coordinator_load_in_progress", "coordinator_not_available", "not_coordinator"}
OLD_PRODUCE, OLD_END, OLD_OFFSETS = 11, 4, 4
"""The last versions of the protocol without an epoch for each transaction."""


class Producer(NamedTuple):
    """A transactional id and its producer."""

    name: str
    id: int
    epoch: int


def _init(talk: Talk, name: str | None, version: int = 5, *, of: Producer | None = None, timeout: int = 60_000) -> Any:
    return talk.ask(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=name,
        transaction_timeout=timeout,
        producer_id=-1 if of is None else of.id,
        producer_epoch=-1 if of is None else of.epoch,
    )


def _started(talk: Talk, name: str, timeout: int = 60_000) -> Producer:
    """A transactional id with a new epoch, as soon as its coordinator is there and its last transaction is complete."""
    talk.settle(lambda: talk.quiet(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=(name,)))
    answer = talk.settle(
        lambda: talk.quiet(
            ApiKey.INIT_PRODUCER_ID,
            transactional_id=name,
            transaction_timeout=timeout,
            producer_id=-1,
            producer_epoch=-1,
        ),
        lambda answer: answer["error_code"] not in _BUSY,
    )
    assert answer["error_code"] == "none", answer
    return Producer(name, answer["producer_id"], answer["producer_epoch"])


def _add(talk: Talk, of: Producer, *topics: tuple[str, Sequence[int]], version: int = 3) -> Any:
    entries = [{"name": name, "partitions": indexes} for name, indexes in topics]
    return talk.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id=of.name,
        v3_and_below_producer_id=of.id,
        v3_and_below_producer_epoch=of.epoch,
        v3_and_below_topics=entries,
    )


def _as_broker(talk: Talk, *transactions: tuple[Producer, bool, str, Sequence[int]], version: int = 5) -> Any:
    entries = [
        {
            "transactional_id": of.name,
            "producer_id": of.id,
            "producer_epoch": of.epoch,
            "verify_only": verify_only,
            "topics": [{"name": name, "partitions": indexes}],
        }
        for of, verify_only, name, indexes in transactions
    ]
    return talk.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, transactions=entries)


def _end(talk: Talk, of: Producer, commits: bool, version: int = 5) -> Any:
    return talk.ask(
        ApiKey.END_TXN,
        version,
        transactional_id=of.name,
        producer_id=of.id,
        producer_epoch=of.epoch,
        committed=commits,
    )


def _ended(talk: Talk, of: Producer, commits: bool, version: int = 5) -> Producer:
    """End a transaction, and wait until it is complete."""
    answer = _end(talk, of, commits, version)
    _completed(talk, of.name)
    return of if version < 5 else Producer(of.name, answer["producer_id"], answer["producer_epoch"])


def _completed(talk: Talk, name: str) -> None:
    def is_complete(answer: Any) -> bool:
        return str(answer["transaction_states"][0]["transaction_state"]) in ("CompleteCommit", "CompleteAbort", "Empty")

    talk.settle(lambda: talk.quiet(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=(name,)), is_complete)


def _write(
    talk: Talk,
    of: Producer,
    topic: str,
    index: int = 0,
    sequence: int = 0,
    version: int = NAMED,
    count: int = 1,
    **fields: Any,
) -> Any:
    """Produce one transactional batch."""
    records = batch(
        count,
        attributes=TRANSACTIONAL_BIT,
        producer_id=of.id,
        producer_epoch=of.epoch,
        base_sequence=sequence,
    )
    values = produce(topic, NOWHERE, (index, records), **{"transactional_id": of.name, **fields})
    return talk.ask(ApiKey.PRODUCE, version, **values)


def _describe(talk: Talk, *names: str) -> Any:
    return talk.ask(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=names)


def _producers(talk: Talk, topic: str, *indexes: int) -> Any:
    return talk.ask(ApiKey.DESCRIBE_PRODUCERS, topics=[{"name": topic, "partition_indexes": indexes or (0,)}])


def _read(talk: Talk, topic: str, topic_id: UUID, isolation: int, offset: int = 0) -> Any:
    values = fetch(fetch_topic(topic, topic_id, fetch_partition(0, offset)), isolation_level=isolation)
    return talk.ask(ApiKey.FETCH, NAMED, **values)


def _offsets(talk: Talk, topic: str, isolation: int) -> None:
    for timestamp in (-1, -2, -3, 1_600_000_000_000):
        partitions = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]
        talk.ask(
            ApiKey.LIST_OFFSETS,
            replica_id=-1,
            isolation_level=isolation,
            topics=[{"name": topic, "partitions": partitions}],
            timeout=0,
        )


def _commit_offsets(
    talk: Talk,
    of: Producer,
    group: str,
    *offsets: tuple[str, int, int],
    version: int = 5,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
) -> Any:
    topics = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "committed_leader_epoch": -1,
                    "committed_metadata": "m",
                }
            ],
        }
        for name, index, offset in offsets
    ]
    return talk.ask(
        ApiKey.TXN_OFFSET_COMMIT,
        version,
        transactional_id=of.name,
        group_id=group,
        producer_id=of.id,
        producer_epoch=of.epoch,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        topics=topics,
    )


@GROUP.exchange
def coordinators(talk: Talk) -> None:
    _started(talk, "found")
    for version in range(1, 7):
        talk.ask(ApiKey.FIND_COORDINATOR, version, key="found", key_type=1, coordinator_keys=("found", "other", ""))


@GROUP.exchange
def producer_ids_and_epochs(talk: Talk) -> None:
    first = _started(talk, "epochs")
    for version in range(6):
        _init(talk, "epochs", version)
    current = Producer(first.name, first.id, first.epoch + 6)
    _init(talk, "epochs", of=current)
    _init(talk, "epochs", of=current)
    for version in (3, 4, 5):
        _init(talk, "epochs", version, of=current._replace(epoch=current.epoch - 1))
        _init(talk, "epochs", version, of=current._replace(id=9_000_000))
        _init(talk, "epochs", version, of=current._replace(epoch=current.epoch + 9))
    _init(talk, "epochs", of=Producer("", -1, 3))
    _init(talk, "epochs", of=Producer("", 9_000_001, -1))
    _init(talk, "")
    for timeout in (0, -1, 900_000, 900_001):
        _init(talk, "epochs", timeout=timeout)
    _describe(talk, "epochs", "nobody", "")


@GROUP.exchange
def a_transaction_in_every_old_version(talk: Talk) -> None:
    topic_id = talk.topic("old", 2)
    producer = _started(talk, "old")
    for version in range(5):
        _add(talk, producer, ("old", [0, 1]), version=min(version, 3))
        _write(talk, producer, "old", 0, version, version=3 + version)
        _describe(talk, "old")
        _ended(talk, producer, version % 2 == 0, version)
        _describe(talk, "old")
    _producers(talk, "old", 0, 1)
    _read(talk, "old", topic_id, 0)
    _read(talk, "old", topic_id, 1)
    _offsets(talk, "old", 1)


@GROUP.exchange
def steps_out_of_order_in_the_old_protocol(talk: Talk) -> None:
    talk.topic("steps", 3)
    producer = _started(talk, "steps")
    other, stale = producer._replace(id=9_000_002), producer._replace(epoch=7)
    for version in (0, 1, 2, 3):
        _add(talk, producer._replace(name="nobody"), ("steps", [0]), version=version)
        _add(talk, producer._replace(name=""), ("steps", [0]), version=version)
        _add(talk, other, ("steps", [0]), version=version)
        _add(talk, stale, ("steps", [0]), version=version)
        _add(talk, producer, ("steps", [0, 9]), ("nowhere", [0]), version=version)
        _add(talk, producer, ("__consumer_offsets", [0]), ("steps", [1]), version=version)
    for version in range(5):
        for commits in (True, False):
            _end(talk, producer, commits, version)
            _end(talk, producer._replace(name="nobody"), commits, version)
            _end(talk, producer._replace(name=""), commits, version)
            _end(talk, other, commits, version)
            _end(talk, stale, commits, version)
    _write(talk, producer, "steps", 0, version=10)
    _write(talk, producer, "steps", 0, version=OLD_PRODUCE)
    _add(talk, producer, ("steps", [0]))
    _add(talk, producer, ("steps", [0]))
    _add(talk, producer, ("steps", [1]))
    _write(talk, producer, "steps", 2, version=OLD_PRODUCE)
    _write(talk, producer, "steps", 0, version=OLD_PRODUCE)
    _write(talk, producer, "steps", 0, version=OLD_PRODUCE)
    _write(talk, producer, "steps", 0, 5, version=OLD_PRODUCE)
    _write(talk, stale, "steps", 0, version=OLD_PRODUCE)
    _write(talk, producer, "steps", 0, 1, version=OLD_PRODUCE, transactional_id=None)
    _describe(talk, "steps")
    _ended(talk, producer, True, OLD_END)
    for version in range(5):
        for commits in (True, False):
            _end(talk, producer, commits, version)
    _write(talk, producer, "steps", 0, 1, version=OLD_PRODUCE)
    _write(talk, producer, "steps", 0, version=OLD_PRODUCE)


@GROUP.exchange
def a_transaction_with_an_epoch_of_its_own(talk: Talk) -> None:
    topic_id = talk.topic("new", 2)
    producer = _started(talk, "new")
    _write(talk, producer, "new", 0)
    _write(talk, producer, "new", 0, 1)
    _write(talk, producer, "new", 1)
    _describe(talk, "new")
    _producers(talk, "new", 0, 1)
    _read(talk, "new", topic_id, 0)
    _read(talk, "new", topic_id, 1)
    _offsets(talk, "new", 0)
    _offsets(talk, "new", 1)
    following = _ended(talk, producer, True)
    _end(talk, producer, True)
    _end(talk, producer, False)
    _describe(talk, "new")
    _producers(talk, "new", 0, 1)
    _read(talk, "new", topic_id, 1)
    _write(talk, producer, "new", 0, 2)
    _write(talk, producer, "new", 0, 0)
    _write(talk, following, "new", 0, 3)
    _write(talk, following, "new", 0, 0)
    third = _ended(talk, following, False)
    _end(talk, following, False)
    _end(talk, following, True)
    _end(talk, third, True)
    _read(talk, "new", topic_id, 0)
    _read(talk, "new", topic_id, 1)
    _read(talk, "new", topic_id, 1, 4)
    _ended(talk, third, False)
    _describe(talk, "new")


@GROUP.exchange
def steps_out_of_order_in_the_new_protocol(talk: Talk) -> None:
    talk.topic("order")
    producer = _started(talk, "order")
    for commits in (True, False):
        _end(talk, producer._replace(name="nobody"), commits)
        _end(talk, producer._replace(name=""), commits)
        _end(talk, producer._replace(id=9_000_003), commits)
        _end(talk, producer._replace(epoch=9), commits)
    _end(talk, producer, True)
    following = _ended(talk, producer, False)
    _end(talk, following, True)
    _write(talk, following._replace(name="nobody"), "order")
    _write(talk, following._replace(epoch=9), "order")
    _write(talk, following._replace(id=9_000_004), "order")
    _write(talk, following, "order", transactional_id=None)
    _write(talk, following, "nowhere")
    _write(talk, following, "order", 4)
    _write(talk, following, "order", 0, 4)
    _write(talk, following, "order", 0, 0)
    plain = batch(1, producer_id=following.id, producer_epoch=following.epoch, base_sequence=1)
    talk.ask(ApiKey.PRODUCE, NAMED, **produce("order", NOWHERE, (0, plain)))
    _ended(talk, following, True)


@GROUP.exchange
def zombies(talk: Talk) -> None:
    talk.topic("zombies")
    talk.group("of zombies")
    before = _started(talk, "zombies")
    _write(talk, before, "zombies")
    _init(talk, "zombies")
    _completed(talk, "zombies")
    after = _started(talk, "zombies")
    _write(talk, before, "zombies", 0, 1)
    _write(talk, before, "zombies", 0, 1, version=OLD_PRODUCE)
    for version in (1, 2, 3):
        _add(talk, before, ("zombies", [0]), version=version)
    for version in (1, 4, 5):
        _end(talk, before, True, version)
    for version in (4, 5):
        _commit_offsets(talk, before, "of zombies", ("zombies", 0, 1), version=version)
    _write(talk, after, "zombies")
    _ended(talk, after, True)


@GROUP.exchange
def checks_between_brokers(talk: Talk) -> None:
    talk.topic("checks", 3)
    producer = _started(talk, "checks")
    for version in (4, 5):
        _as_broker(talk, (producer, True, "checks", [0, 1]), version=version)
        _as_broker(talk, (producer._replace(epoch=9), True, "checks", [0]), version=version)
        _as_broker(talk, (producer._replace(id=9_000_005), True, "checks", [0]), version=version)
        _as_broker(talk, (producer._replace(name="nobody"), True, "checks", [0]), version=version)
        _as_broker(talk, (producer, True, "nowhere", [0]), version=version)
    _as_broker(talk, (producer, False, "checks", [0]), (producer._replace(name="nobody"), False, "checks", [1]))
    _as_broker(talk, (producer, True, "checks", [0, 1]))
    _as_broker(talk, (producer, False, "checks", [0, 9]))
    _describe(talk, "checks")
    following = _ended(talk, producer, True)
    _as_broker(talk, (following, True, "checks", [0]))


@GROUP.exchange
def offsets_in_transactions(talk: Talk) -> None:
    topic_id = talk.topic("sent", 3)
    group = talk.group("senders")
    producer = _started(talk, "senders")
    _commit_offsets(talk, producer, group, ("sent", 0, 5), version=OLD_OFFSETS)
    for version in range(5):
        talk.ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            version,
            transactional_id=producer.name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group,
        )
        _commit_offsets(talk, producer, group, ("sent", 0, 5), ("sent", 9, 1), ("nowhere", 0, 1), version=version)
    _describe(talk, producer.name)
    for stable in (False, True):
        fetched(talk, group, [("sent", topic_id, [0, 1])], 9, stable=stable)
        fetched(talk, group, None, 9, stable=stable)
    commit(talk, group, ("sent", topic_id, [(1, 3, -1, "plain")]), version=9)
    fetched(talk, group, None, 9, stable=True)
    _ended(talk, producer, True, OLD_END)
    fetched(talk, group, None, 9, stable=True)
    second = _started(talk, "senders")
    _commit_offsets(talk, second, group, ("sent", 0, 8), ("sent", 1, 8))
    commit(talk, group, ("sent", topic_id, [(1, 9, -1, "later")]), version=9)
    fetched(talk, group, None, 9, stable=True)
    third = _ended(talk, second, True)
    fetched(talk, group, None, 9, stable=True)
    _commit_offsets(talk, third, group, ("sent", 0, 11))
    _commit_offsets(talk, second, group, ("sent", 0, 12))
    _ended(talk, third, False)
    fetched(talk, group, None, 9, stable=True)


@GROUP.exchange
def offsets_of_groups_that_do_not_fit(talk: Talk) -> None:
    talk.topic("fit")
    group = talk.group("fits")
    producer = _started(talk, "fits")
    for version in (4, 5):
        if version == 4:
            talk.ask(
                ApiKey.ADD_OFFSETS_TO_TXN,
                4,
                transactional_id=producer.name,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                group_id=group,
            )
        _commit_offsets(talk, producer, group, ("fit", 0, 1), version=version, generation=3)
        _commit_offsets(talk, producer, group, ("fit", 0, 1), version=version, member="nobody")
        _commit_offsets(talk, producer, group, ("fit", 0, 1), version=version, instance="nobody")
        _commit_offsets(talk, producer, "", ("fit", 0, 1), version=version)
        _commit_offsets(talk, producer._replace(name="nobody"), group, ("fit", 0, 1), version=version)
        _commit_offsets(talk, producer._replace(id=9_000_006), group, ("fit", 0, 1), version=version)
        _commit_offsets(talk, producer._replace(epoch=9), group, ("fit", 0, 1), version=version)
        _commit_offsets(talk, producer, group, version=version)
    _commit_offsets(talk, producer, group, ("fit", 0, 1))
    _commit_offsets(talk, producer, group, ("fit", 0, 2), generation=3)
    for name, id_, epoch in (
        ("", producer.id, 0),
        ("nobody", producer.id, 0),
        ("fits", 9_000_007, 0),
        ("fits", producer.id, 9),
    ):
        for version in (0, 1, 2, 4):
            talk.ask(
                ApiKey.ADD_OFFSETS_TO_TXN,
                version,
                transactional_id=name,
                producer_id=id_,
                producer_epoch=epoch,
                group_id=group,
            )
    _ended(talk, producer, False)


@GROUP.exchange
def markers_of_an_administrator(talk: Talk) -> None:
    topic_id = talk.topic("marked", 2)
    producer = _started(talk, "marked")
    _write(talk, producer, "marked")

    def mark(
        epoch: int,
        commits: bool,
        coordinator_epoch: int,
        transaction_version: int,
        version: int = 2,
        id_: int = producer.id,
    ) -> None:
        talk.ask(
            ApiKey.WRITE_TXN_MARKERS,
            version,
            markers=[
                {
                    "producer_id": id_,
                    "producer_epoch": epoch,
                    "transaction_result": commits,
                    "topics": [
                        {"name": "marked", "partition_indexes": [0, 7]},
                        {"name": "nowhere", "partition_indexes": [0]},
                    ],
                    "coordinator_epoch": coordinator_epoch,
                    "transaction_version": transaction_version,
                }
            ],
        )

    mark(producer.epoch, True, 0, 2)
    mark(producer.epoch, False, 5, 0, version=1)
    _producers(talk, "marked")
    mark(producer.epoch, False, 4, 0)
    mark(producer.epoch, False, 5, 2)
    mark(producer.epoch + 1, False, 5, 2)
    mark(producer.epoch, False, 5, 0)
    mark(0, True, 0, 0, id_=9_000_008)
    mark(0, True, 0, 2, id_=9_000_009)
    _producers(talk, "marked")
    _read(talk, "marked", topic_id, 1)


@GROUP.exchange
def timeouts(talk: Talk) -> None:
    talk.topic("late")
    producer = _started(talk, "late", timeout=300)
    _write(talk, producer, "late")
    _completed(talk, "late")
    _describe(talk, "late")
    _write(talk, producer, "late", 0, 1)
    _end(talk, producer, True)
    _end(talk, producer, False)


@GROUP.exchange
def lists(talk: Talk) -> None:
    talk.topic("listed")
    one, two = _started(talk, "listed-1"), _started(talk, "listed-2")
    _write(talk, two, "listed")
    for version in (0, 1, 2):
        ours = {"transactional_id_pattern": "listed-.*"}
        for states in ((), ("Empty",), ("Ongoing", "Nonsense"), ("Nonsense",), ("Dead",)):
            if version == 2 or states not in ((), ("Empty",)):
                talk.ask(
                    ApiKey.LIST_TRANSACTIONS,
                    version,
                    state_filters=states,
                    **(ours if version == 2 else {"producer_id_filters": (two.id,)}),
                )
    for duration in (0, 100_000):
        talk.ask(ApiKey.LIST_TRANSACTIONS, duration_filter=duration, transactional_id_pattern="listed-.*")
    for pattern in ("listed-1", "listed", "(", ""):
        talk.ask(ApiKey.LIST_TRANSACTIONS, producer_id_filters=(one.id, two.id), transactional_id_pattern=pattern)
    _ended(talk, two, False)


@GROUP.exchange
def lower_transaction_versions(talk: Talk) -> None:
    talk.topic("lower")
    for level in (1, 0):
        update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": 2}
        talk.ask(ApiKey.UPDATE_FEATURES, timeout=10_000, feature_updates=[update], validate_only=False)
        _finalized(talk, level)
        producer = _started(talk, f"lower-{level}")
        _add(talk, producer, ("lower", [0]))
        _write(talk, producer, "lower", version=OLD_PRODUCE)
        _init(talk, producer.name)
        _completed(talk, producer.name)
        _describe(talk, producer.name)
        _init(talk, producer.name)
        _producers(talk, "lower")
    update = {"feature": "transaction.version", "max_version_level": 3, "upgrade_type": 1}
    talk.ask(ApiKey.UPDATE_FEATURES, timeout=10_000, feature_updates=[update], validate_only=False)
    update = {"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1}
    talk.ask(ApiKey.UPDATE_FEATURES, timeout=10_000, feature_updates=[update], validate_only=False)


def _finalized(talk: Talk, level: int) -> None:
    """Wait until the node has this transaction.version."""

    def has_level(answer: Any) -> bool:
        levels = {one["name"]: one["max_version_level"] for one in answer["finalized_features"]}
        return bool(levels.get("transaction.version", 0) == level)

    talk.settle(
        lambda: talk.quiet(ApiKey.API_VERSIONS, client_software_name="o", client_software_version="1"), has_level
    )
