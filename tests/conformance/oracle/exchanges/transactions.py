"""Transactions of both protocols, and the errors of each step; the coordinators and the partitions are on one node."""

from isthmus_wire.apis import ApiKey

from tests.conformance.oracle.exchanges import Group
from tests.conformance.oracle.exchanges.offsets import commit, fetched
from tests.conformance.oracle.talk import Talk
from tests.conformance.oracle.transactional import (
    OLD_END,
    OLD_OFFSETS,
    OLD_PRODUCE,
    Producer,
    add_offsets,
    add_partitions,
    await_completion,
    check_as_broker,
    commit_offsets,
    describe,
    describe_producers,
    end,
    ended,
    init_producer,
    list_offsets,
    read,
    set_transaction_version,
    started,
    write,
)
from tests.conformance.oracle.values import NAMED, NOWHERE, batch, produce

GROUP = Group(
    {
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    }
)


@GROUP.exchange
def coordinators(talk: Talk) -> None:
    started(talk, "found")
    for version in range(1, 7):
        talk.ask(ApiKey.FIND_COORDINATOR, version, key="found", key_type=1, coordinator_keys=("found", "other", ""))


@GROUP.exchange
def producer_ids_and_epochs(talk: Talk) -> None:
    first = started(talk, "epochs")
    for version in range(6):
        init_producer(talk, "epochs", version)
    current = Producer(first.name, first.id, first.epoch + 6)
    init_producer(talk, "epochs", of=current)
    init_producer(talk, "epochs", of=current)
    for version in (3, 4, 5):
        init_producer(talk, "epochs", version, of=current._replace(epoch=current.epoch - 1))
        init_producer(talk, "epochs", version, of=current._replace(id=9_000_000))
        init_producer(talk, "epochs", version, of=current._replace(epoch=current.epoch + 9))
    init_producer(talk, "epochs", of=Producer("", -1, 3))
    init_producer(talk, "epochs", of=Producer("", 9_000_001, -1))
    init_producer(talk, "")
    for timeout in (0, -1, 900_000, 900_001):
        init_producer(talk, "epochs", timeout=timeout)
    describe(talk, "epochs", "nobody", "")


@GROUP.exchange
def a_transaction_in_every_old_version(talk: Talk) -> None:
    topic_id = talk.topic("old", 2)
    producer = started(talk, "old")
    for version in range(5):
        add_partitions(talk, producer, ("old", [0, 1]), version=min(version, 3))
        write(talk, producer, "old", 0, version, version=3 + version)
        describe(talk, "old")
        ended(talk, producer, version % 2 == 0, version)
        describe(talk, "old")
    describe_producers(talk, "old", 0, 1)
    read(talk, "old", topic_id, 0)
    read(talk, "old", topic_id, 1)
    list_offsets(talk, "old", 1)


@GROUP.exchange
def steps_out_of_order_in_the_old_protocol(talk: Talk) -> None:
    talk.topic("steps", 3)
    producer = started(talk, "steps")
    other, stale = producer._replace(id=9_000_002), producer._replace(epoch=7)
    for version in (0, 1, 2, 3):
        add_partitions(talk, producer._replace(name="nobody"), ("steps", [0]), version=version)
        add_partitions(talk, producer._replace(name=""), ("steps", [0]), version=version)
        add_partitions(talk, other, ("steps", [0]), version=version)
        add_partitions(talk, stale, ("steps", [0]), version=version)
        add_partitions(talk, producer, ("steps", [0, 9]), ("nowhere", [0]), version=version)
        add_partitions(talk, producer, ("__consumer_offsets", [0]), ("steps", [1]), version=version)
    for version in range(5):
        for commits in (True, False):
            end(talk, producer, commits, version)
            end(talk, producer._replace(name="nobody"), commits, version)
            end(talk, producer._replace(name=""), commits, version)
            end(talk, other, commits, version)
            end(talk, stale, commits, version)
    write(talk, producer, "steps", 0, version=10)
    write(talk, producer, "steps", 0, version=OLD_PRODUCE)
    add_partitions(talk, producer, ("steps", [0]))
    add_partitions(talk, producer, ("steps", [0]))
    add_partitions(talk, producer, ("steps", [1]))
    write(talk, producer, "steps", 2, version=OLD_PRODUCE)
    write(talk, producer, "steps", 0, version=OLD_PRODUCE)
    write(talk, producer, "steps", 0, version=OLD_PRODUCE)
    write(talk, producer, "steps", 0, 5, version=OLD_PRODUCE)
    write(talk, stale, "steps", 0, version=OLD_PRODUCE)
    write(talk, producer, "steps", 0, 1, version=OLD_PRODUCE, transactional_id=None)
    describe(talk, "steps")
    ended(talk, producer, True, OLD_END)
    for version in range(5):
        for commits in (True, False):
            end(talk, producer, commits, version)
    write(talk, producer, "steps", 0, 1, version=OLD_PRODUCE)
    write(talk, producer, "steps", 0, version=OLD_PRODUCE)


@GROUP.exchange
def a_transaction_with_an_epoch_of_its_own(talk: Talk) -> None:
    topic_id = talk.topic("new", 2)
    producer = started(talk, "new")
    write(talk, producer, "new", 0)
    write(talk, producer, "new", 0, 1)
    write(talk, producer, "new", 1)
    describe(talk, "new")
    describe_producers(talk, "new", 0, 1)
    read(talk, "new", topic_id, 0)
    read(talk, "new", topic_id, 1)
    list_offsets(talk, "new", 0)
    list_offsets(talk, "new", 1)
    following = ended(talk, producer, True)
    end(talk, producer, True)
    end(talk, producer, False)
    describe(talk, "new")
    describe_producers(talk, "new", 0, 1)
    read(talk, "new", topic_id, 1)
    write(talk, producer, "new", 0, 2)
    write(talk, producer, "new", 0, 0)
    write(talk, following, "new", 0, 3)
    write(talk, following, "new", 0, 0)
    third = ended(talk, following, False)
    end(talk, following, False)
    end(talk, following, True)
    end(talk, third, True)
    read(talk, "new", topic_id, 0)
    read(talk, "new", topic_id, 1)
    read(talk, "new", topic_id, 1, 4)
    ended(talk, third, False)
    describe(talk, "new")


@GROUP.exchange
def steps_out_of_order_in_the_new_protocol(talk: Talk) -> None:
    talk.topic("order")
    producer = started(talk, "order")
    for commits in (True, False):
        end(talk, producer._replace(name="nobody"), commits)
        end(talk, producer._replace(name=""), commits)
        end(talk, producer._replace(id=9_000_003), commits)
        end(talk, producer._replace(epoch=9), commits)
    end(talk, producer, True)
    following = ended(talk, producer, False)
    end(talk, following, True)
    write(talk, following._replace(name="nobody"), "order")
    write(talk, following._replace(epoch=9), "order")
    write(talk, following._replace(id=9_000_004), "order")
    write(talk, following, "order", transactional_id=None)
    write(talk, following, "nowhere")
    write(talk, following, "order", 4)
    write(talk, following, "order", 0, 4)
    write(talk, following, "order", 0, 0)
    plain = batch(1, producer_id=following.id, producer_epoch=following.epoch, base_sequence=1)
    talk.ask(ApiKey.PRODUCE, NAMED, **produce("order", NOWHERE, (0, plain)))
    ended(talk, following, True)


@GROUP.exchange
def zombies(talk: Talk) -> None:
    talk.topic("zombies")
    talk.group("of zombies")
    before = started(talk, "zombies")
    write(talk, before, "zombies")
    init_producer(talk, "zombies")
    await_completion(talk, "zombies")
    after = started(talk, "zombies")
    write(talk, before, "zombies", 0, 1)
    write(talk, before, "zombies", 0, 1, version=OLD_PRODUCE)
    for version in (1, 2, 3):
        add_partitions(talk, before, ("zombies", [0]), version=version)
    for version in (1, 4, 5):
        end(talk, before, True, version)
    for version in (4, 5):
        commit_offsets(talk, before, "of zombies", ("zombies", 0, 1), version=version)
    write(talk, after, "zombies")
    ended(talk, after, True)


@GROUP.exchange
def checks_between_brokers(talk: Talk) -> None:
    talk.topic("checks", 3)
    producer = started(talk, "checks")
    for version in (4, 5):
        check_as_broker(talk, (producer, True, "checks", [0, 1]), version=version)
        check_as_broker(talk, (producer._replace(epoch=9), True, "checks", [0]), version=version)
        check_as_broker(talk, (producer._replace(id=9_000_005), True, "checks", [0]), version=version)
        check_as_broker(talk, (producer._replace(name="nobody"), True, "checks", [0]), version=version)
        check_as_broker(talk, (producer, True, "nowhere", [0]), version=version)
    check_as_broker(talk, (producer, False, "checks", [0]), (producer._replace(name="nobody"), False, "checks", [1]))
    check_as_broker(talk, (producer, True, "checks", [0, 1]))
    check_as_broker(talk, (producer, False, "checks", [0, 9]))
    describe(talk, "checks")
    following = ended(talk, producer, True)
    check_as_broker(talk, (following, True, "checks", [0]))


@GROUP.exchange
def offsets_in_transactions(talk: Talk) -> None:
    topic_id = talk.topic("sent", 3)
    group = talk.group("senders")
    producer = started(talk, "senders")
    commit_offsets(talk, producer, group, ("sent", 0, 5), version=OLD_OFFSETS)
    for version in range(5):
        add_offsets(talk, producer, group, version)
        commit_offsets(talk, producer, group, ("sent", 0, 5), ("sent", 9, 1), ("nowhere", 0, 1), version=version)
    describe(talk, producer.name)
    for stable in (False, True):
        fetched(talk, group, [("sent", topic_id, [0, 1])], 9, stable=stable)
        fetched(talk, group, None, 9, stable=stable)
    commit(talk, group, ("sent", topic_id, [(1, 3, -1, "plain")]), version=9)
    fetched(talk, group, None, 9, stable=True)
    ended(talk, producer, True, OLD_END)
    fetched(talk, group, None, 9, stable=True)
    second = started(talk, "senders")
    commit_offsets(talk, second, group, ("sent", 0, 8), ("sent", 1, 8))
    commit(talk, group, ("sent", topic_id, [(1, 9, -1, "later")]), version=9)
    fetched(talk, group, None, 9, stable=True)
    third = ended(talk, second, True)
    fetched(talk, group, None, 9, stable=True)
    commit_offsets(talk, third, group, ("sent", 0, 11))
    commit_offsets(talk, second, group, ("sent", 0, 12))
    ended(talk, third, False)
    fetched(talk, group, None, 9, stable=True)


@GROUP.exchange
def offsets_of_groups_that_do_not_fit(talk: Talk) -> None:
    talk.topic("fit")
    group = talk.group("fits")
    producer = started(talk, "fits")
    for version in (4, 5):
        if version == 4:
            add_offsets(talk, producer, group, 4)
        commit_offsets(talk, producer, group, ("fit", 0, 1), version=version, generation=3)
        commit_offsets(talk, producer, group, ("fit", 0, 1), version=version, member="nobody")
        commit_offsets(talk, producer, group, ("fit", 0, 1), version=version, instance="nobody")
        commit_offsets(talk, producer, "", ("fit", 0, 1), version=version)
        commit_offsets(talk, producer._replace(name="nobody"), group, ("fit", 0, 1), version=version)
        commit_offsets(talk, producer._replace(id=9_000_006), group, ("fit", 0, 1), version=version)
        commit_offsets(talk, producer._replace(epoch=9), group, ("fit", 0, 1), version=version)
        commit_offsets(talk, producer, group, version=version)
    commit_offsets(talk, producer, group, ("fit", 0, 1))
    commit_offsets(talk, producer, group, ("fit", 0, 2), generation=3)
    for name, id_, epoch in (
        ("", producer.id, 0),
        ("nobody", producer.id, 0),
        ("fits", 9_000_007, 0),
        ("fits", producer.id, 9),
    ):
        for version in (0, 1, 2, 4):
            add_offsets(talk, Producer(name, id_, epoch), group, version)
    ended(talk, producer, False)


@GROUP.exchange
def markers_of_an_administrator(talk: Talk) -> None:
    topic_id = talk.topic("marked", 2)
    producer = started(talk, "marked")
    write(talk, producer, "marked")

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
    describe_producers(talk, "marked")
    mark(producer.epoch, False, 4, 0)
    mark(producer.epoch, False, 5, 2)
    mark(producer.epoch + 1, False, 5, 2)
    mark(producer.epoch, False, 5, 0)
    mark(0, True, 0, 0, id_=9_000_008)
    mark(0, True, 0, 2, id_=9_000_009)
    describe_producers(talk, "marked")
    read(talk, "marked", topic_id, 1)


@GROUP.exchange
def timeouts(talk: Talk) -> None:
    talk.topic("late")
    producer = started(talk, "late", timeout=300)
    write(talk, producer, "late")
    await_completion(talk, "late")
    describe(talk, "late")
    write(talk, producer, "late", 0, 1)
    end(talk, producer, True)
    end(talk, producer, False)


@GROUP.exchange
def lists(talk: Talk) -> None:
    talk.topic("listed")
    one, two = started(talk, "listed-1"), started(talk, "listed-2")
    write(talk, two, "listed")
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
    ended(talk, two, False)


@GROUP.exchange
def lower_transaction_versions(talk: Talk) -> None:
    talk.topic("lower")
    for level in (1, 0):
        set_transaction_version(talk, level, 2)
        producer = started(talk, f"lower-{level}")
        add_partitions(talk, producer, ("lower", [0]))
        write(talk, producer, "lower", version=OLD_PRODUCE)
        init_producer(talk, producer.name)
        await_completion(talk, producer.name)
        describe(talk, producer.name)
        init_producer(talk, producer.name)
        describe_producers(talk, "lower")
    update = {"feature": "transaction.version", "max_version_level": 3, "upgrade_type": 1}
    talk.ask(ApiKey.UPDATE_FEATURES, timeout=10_000, feature_updates=[update], validate_only=False)
    update = {"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1}
    talk.ask(ApiKey.UPDATE_FEATURES, timeout=10_000, feature_updates=[update], validate_only=False)
