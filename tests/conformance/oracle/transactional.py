"""Steps of transactions that exchanges share: at the coordinator of the producer, or at the broker that `on` names."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from isthmus_wire.apis import ApiKey
from isthmus_wire.records import TRANSACTIONAL_BIT

from tests.conformance.oracle.talk import MAIN, Talk, node
from tests.conformance.oracle.values import NAMED, NOWHERE, batch, fetch, fetch_partition, fetch_topic, produce

OLD_PRODUCE, OLD_END, OLD_OFFSETS = 11, 4, 4
"""The last versions of the protocol without an epoch for each transaction."""
COMPLETE: Final = ("CompleteCommit", "CompleteAbort", "Empty")
_BUSY: Final = {
    "concurrent_transactions",
    "coordinator_load_in_progress",
    "coordinator_not_available",
    "not_coordinator",
}


class Producer(NamedTuple):
    """A transactional id, its producer, and the connection to its coordinator."""

    name: str
    id: int
    epoch: int
    coordinator: str = MAIN


def init_producer(
    talk: Talk,
    name: str | None,
    version: int = 5,
    *,
    of: Producer | None = None,
    timeout: int = 60_000,
    on: str | None = None,
) -> Any:
    """InitProducerId, by default without a producer to resume."""
    return talk.ask(
        ApiKey.INIT_PRODUCER_ID,
        version,
        on or (of.coordinator if of else MAIN),
        transactional_id=name,
        transaction_timeout=timeout,
        producer_id=-1 if of is None else of.id,
        producer_epoch=-1 if of is None else of.epoch,
    )


def coordinator_of(talk: Talk, name: str, kind: int = 1) -> str:
    """The connection to the coordinator of a transactional id (1) or a group (0)."""

    def find() -> Any:
        return talk.quiet(ApiKey.FIND_COORDINATOR, key_type=kind, coordinator_keys=(name,))

    answer = talk.settle(find)
    return node(answer["coordinators"][0]["node_id"]) if talk.target.nodes else MAIN


def started(talk: Talk, name: str, timeout: int = 60_000) -> Producer:
    """A transactional id with a new epoch, as soon as its coordinator is there and its last transaction is complete."""
    coordinator = coordinator_of(talk, name)
    answer = talk.settle(
        lambda: talk.quiet(
            ApiKey.INIT_PRODUCER_ID,
            on=coordinator,
            transactional_id=name,
            transaction_timeout=timeout,
            producer_id=-1,
            producer_epoch=-1,
        ),
        lambda answer: answer["error_code"] not in _BUSY,
    )
    assert answer["error_code"] == "none", answer
    return Producer(name, answer["producer_id"], answer["producer_epoch"], coordinator)


def add_partitions(
    talk: Talk, of: Producer, *topics: tuple[str, Sequence[int]], version: int = 3, on: str | None = None
) -> Any:
    """AddPartitionsToTxn as clients send it."""
    entries = [{"name": name, "partitions": indexes} for name, indexes in topics]
    return talk.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        on or of.coordinator,
        v3_and_below_transactional_id=of.name,
        v3_and_below_producer_id=of.id,
        v3_and_below_producer_epoch=of.epoch,
        v3_and_below_topics=entries,
    )


def check_as_broker(
    talk: Talk,
    *transactions: tuple[Producer, bool, str, Sequence[int]],
    version: int = 5,
    on: str | None = None,
) -> Any:
    """AddPartitionsToTxn as brokers send it: (producer, whether to verify only, topic, partitions)."""
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
    return talk.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, on or transactions[0][0].coordinator, transactions=entries)


def add_offsets(talk: Talk, of: Producer, group: str, version: int = 4, on: str | None = None) -> Any:
    """AddOffsetsToTxn."""
    return talk.ask(
        ApiKey.ADD_OFFSETS_TO_TXN,
        version,
        on or of.coordinator,
        transactional_id=of.name,
        producer_id=of.id,
        producer_epoch=of.epoch,
        group_id=group,
    )


def end(talk: Talk, of: Producer, commits: bool, version: int = 5, on: str | None = None) -> Any:
    """EndTxn."""
    return talk.ask(
        ApiKey.END_TXN,
        version,
        on or of.coordinator,
        transactional_id=of.name,
        producer_id=of.id,
        producer_epoch=of.epoch,
        committed=commits,
    )


def ended(talk: Talk, of: Producer, commits: bool, version: int = 5) -> Producer:
    """End a transaction, and wait until it is complete; returns the producer of the next one."""
    answer = end(talk, of, commits, version)
    await_completion(talk, of.name, of.coordinator)
    return of if version < 5 else of._replace(id=answer["producer_id"], epoch=answer["producer_epoch"])


def await_completion(talk: Talk, name: str, on: str = MAIN) -> None:
    """Wait until the last transaction of an id has all its markers."""

    def is_complete(answer: Any) -> bool:
        return str(answer["transaction_states"][0]["transaction_state"]) in COMPLETE

    talk.settle(lambda: talk.quiet(ApiKey.DESCRIBE_TRANSACTIONS, on=on, transactional_ids=(name,)), is_complete)


def write(
    talk: Talk,
    of: Producer,
    topic: str,
    index: int = 0,
    sequence: int = 0,
    version: int = NAMED,
    count: int = 1,
    on: str = MAIN,
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
    return talk.ask(ApiKey.PRODUCE, version, on, **values)


def describe(talk: Talk, *names: str, on: str = MAIN) -> Any:
    """DescribeTransactions."""
    return talk.ask(ApiKey.DESCRIBE_TRANSACTIONS, on=on, transactional_ids=names)


def describe_producers(talk: Talk, topic: str, *indexes: int, on: str = MAIN) -> Any:
    """DescribeProducers."""
    return talk.ask(ApiKey.DESCRIBE_PRODUCERS, on=on, topics=[{"name": topic, "partition_indexes": indexes or (0,)}])


def read(talk: Talk, topic: str, topic_id: UUID, isolation: int, offset: int = 0) -> Any:
    """Fetch the first partition with an isolation level."""
    values = fetch(fetch_topic(topic, topic_id, fetch_partition(0, offset)), isolation_level=isolation)
    return talk.ask(ApiKey.FETCH, NAMED, **values)


def list_offsets(talk: Talk, topic: str, isolation: int) -> None:
    """Latest, earliest, greatest timestamp, and by time."""
    for timestamp in (-1, -2, -3, 1_600_000_000_000):
        partitions = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}]
        talk.ask(
            ApiKey.LIST_OFFSETS,
            replica_id=-1,
            isolation_level=isolation,
            topics=[{"name": topic, "partitions": partitions}],
            timeout=0,
        )


def commit_offsets(
    talk: Talk,
    of: Producer,
    group: str,
    *offsets: tuple[str, int, int],
    version: int = 5,
    generation: int = -1,
    member: str = "",
    instance: str | None = None,
    on: str = MAIN,
) -> Any:
    """TxnOffsetCommit of (topic, partition, offset)."""
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
        on,
        transactional_id=of.name,
        group_id=group,
        producer_id=of.id,
        producer_epoch=of.epoch,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        topics=topics,
    )


def set_transaction_version(talk: Talk, level: int, kind: int, *brokers: str) -> None:
    """Change transaction.version, up (1) or down (2), and wait until the brokers have it."""
    update = {"feature": "transaction.version", "max_version_level": level, "upgrade_type": kind}
    talk.ask(ApiKey.UPDATE_FEATURES, timeout=10_000, feature_updates=[update], validate_only=False)
    for on in brokers or (MAIN,):
        _await_transaction_version(talk, level, on)


def _await_transaction_version(talk: Talk, level: int, on: str) -> None:
    def has_level(answer: Any) -> bool:
        levels = {one["name"]: one["max_version_level"] for one in answer["finalized_features"]}
        return bool(levels.get("transaction.version", 0) == level)

    talk.settle(
        lambda: talk.quiet(ApiKey.API_VERSIONS, on=on, client_software_name="o", client_software_version="1"),
        has_level,
    )
