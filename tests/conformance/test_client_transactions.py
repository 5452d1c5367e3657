"""Transactions of the client library, under both protocols, against a node and against Apache Kafka."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from isthmus_client.admin import group_offsets, topics
from isthmus_client.admin.group_offsets import Committed, GroupMetadata
from isthmus_client.admin.list_offsets import At
from isthmus_client.client import Client
from isthmus_client.consumer import Consumer, GroupProtocol
from isthmus_client.errors import GaveUp, IllegalCall, MustAbort, OutcomeUnknown, ProducerFenced, Refused
from isthmus_client.metadata import Topic, TopicPartition
from isthmus_client.producer import Producer
from isthmus_client.transactional_producer import TransactionalProducer
from isthmus_wire.apis import ApiKey
from isthmus_wire.compression import Compression
from isthmus_wire.records import NewRecord, build_batch

from tests.conformance.lossy import Fate, Network
from tests.conformance.transactions import (
    SECONDS,
    Target,
    ends,
    made,
    producing,
    set_transaction_version,
    settle,
    settled,
    values,
)

TRANSACTIONAL = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    }
)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    return Network(monkeypatch)


def test_records_and_offsets_are_committed_together_or_not_at_all(target: Target) -> None:
    async def work(client: Client) -> None:
        name = group = "txn-together"
        partitions = await made(client, name, 3)
        source = partitions[0]
        async with producing(client, name) as producer:
            for number in range(4):
                await producer.begin()
                for partition in range(3):
                    await producer.send(name, b"%d-%d" % (number, partition), partition=partition)
                await producer.flush()
                await producer.send_offsets({source: Committed(number, metadata="m")}, GroupMetadata(group))
                await (producer.commit() if number % 2 == 0 else producer.abort())
        expected = [b"%d-%d" % (number, partition) for partition in range(3) for number in (0, 2)]
        assert await settled(client, partitions) == expected
        assert len(await values(client, partitions, committed=False)) == 12
        committed = await group_offsets.fetch(client, group, require_stable=True)
        assert committed == {source: Committed(2, metadata="m")}

    target.run(work)


def test_an_open_transaction_holds_back_later_records(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "txn-stable"
        (partition,) = await made(client, name)
        async with producing(client, name) as producer, Producer(client, linger_seconds=0) as plain:
            await (await plain.send(name, b"before")).place()
            await producer.begin()
            await (await producer.send(name, b"inside")).place()
            await (await plain.send(name, b"after")).place()
            assert await values(client, [partition]) == [b"before"]
            assert await values(client, [partition], committed=False) == [b"before", b"inside", b"after"]
            await producer.commit()
            assert await settled(client, [partition]) == [b"before", b"inside", b"after"]

    target.run(work)


def test_batches_of_another_log_keep_their_records(target: Target) -> None:
    """Among records of its own, and compressed: the producer's sequences count the records of both."""

    async def work(client: Client) -> None:
        name = "txn-copied"
        (partition,) = await made(client, name)
        records = [NewRecord(b"key", b"copied-%d" % number, 1_700_000_000_000 + number) for number in range(3)]
        batch = build_batch(
            records, base_offset=77, compression=Compression.ZSTD, producer_id=4, producer_epoch=1, base_sequence=9
        )
        async with producing(client, name) as producer:
            for number in range(2):
                async with producer.transaction():
                    await producer.send(name, b"first-%d" % number)
                    copied = await producer.send_batch(partition, memoryview(batch))
                    await producer.send(name, b"last-%d" % number)
                assert (await copied.place()).offset == 6 * number + 1
        of_copied = [record.value for record in records]
        expected = [b"first-0", *of_copied, b"last-0", b"first-1", *of_copied, b"last-1"]
        assert await settled(client, [partition]) == expected

    target.run(work)


def test_an_aborted_transaction_leaves_nothing_that_was_buffered(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "txn-buffered"
        (partition,) = await made(client, name)
        async with producing(client, name) as producer:
            await producer.begin()
            deliveries = [await producer.send(name, b"aborted") for _ in range(3)]
            await producer.abort()
            for delivery in deliveries:
                with pytest.raises(MustAbort, match="aborted before the record was acknowledged"):
                    await delivery.place()

            async def change_its_mind() -> None:
                async with producer.transaction():
                    await (await producer.send(name, b"aborted")).place()
                    raise ValueError("the producer changed its mind")

            with pytest.raises(ValueError, match="changed its mind"):
                await change_its_mind()
            async with producer.transaction():
                await producer.send(name, b"committed")
        assert await settled(client, [partition]) == [b"committed"]

    target.run(work)


@pytest.mark.parametrize("api", sorted(TRANSACTIONAL), ids=lambda api: api.name.lower())
def test_lost_responses_neither_lose_nor_double_anything(target: Target, network: Network, api: ApiKey) -> None:
    name = group = f"txn-lost-{api.name.lower()}"

    async def work(client: Client) -> None:
        (partition,) = await made(client, name)
        network.lose_responses(api, 2)
        async with producing(client, name) as producer:
            for number in range(3):
                async with producer.transaction():
                    await producer.send(name, b"%d" % number)
                    await producer.send_offsets({partition: Committed(number)}, GroupMetadata(group))
        assert await settled(client, [partition]) == [b"0", b"1", b"2"]
        assert (await group_offsets.fetch(client, group, require_stable=True))[partition].offset == 2

    target.run(work)
    added_by_brokers = api in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN) and target.version == 2
    assert network.lost == (0 if added_by_brokers else 2)


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_a_commit_or_abort_without_response_is_called_again(target: Target, network: Network, committed: bool) -> None:
    name = f"txn-doubt-{committed}"

    async def work(client: Client) -> None:
        (partition,) = await made(client, name)
        async with target.client(operation_seconds=0.5) as impatient, producing(impatient, name) as producer:
            await producer.begin()
            await (await producer.send(name, b"first")).place()
            network.lose_responses(ApiKey.END_TXN, 1000)
            call = producer.commit if committed else producer.abort
            for _ in range(2):
                with pytest.raises(OutcomeUnknown, match=f"Call {call.__name__} again"):
                    await call()
                with pytest.raises(IllegalCall, match=f"call {call.__name__} again"):
                    await producer.send(name, b"refused")
            if committed:
                with pytest.raises(IllegalCall, match="cannot call abort: the producer has sent the commit"):
                    await producer.abort()
            network.lose_responses(ApiKey.END_TXN, 0)
            await call()
            async with producer.transaction():
                await producer.send(name, b"second")
        assert await settled(client, [partition]) == ([b"first"] if committed else []) + [b"second"]

    target.run(work)


def test_a_new_producer_fences_the_old_one(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "txn-fenced"
        (partition,) = await made(client, name)
        async with producing(client, name) as old:
            await old.begin()
            await (await old.send(name, b"old")).place()
            async with producing(client, name) as new:
                await new.begin()
                await (await new.send(name, b"new")).place()
                for _ in range(2):
                    with pytest.raises(ProducerFenced, match="transactional id txn-fenced: another producer has it"):
                        await old.commit()
                with pytest.raises(ProducerFenced):
                    await old.send(name, b"refused")
                await new.commit()
        assert await settled(client, [partition]) == [b"new"]

    target.run(work)


def test_a_fenced_producer_that_appends_learns_it_at_the_latest_from_its_abort(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "txn-zombie"
        (partition,) = await made(client, name)
        async with producing(client, name) as old:
            await old.begin()
            await (await old.send(name, b"old")).place()
            async with producing(client, name) as new:
                async with new.transaction():
                    await new.send(name, b"new")
                delivery = await old.send(name, b"zombie")
                with pytest.raises((MustAbort, ProducerFenced)):
                    await delivery.place()
                with pytest.raises(ProducerFenced):
                    await old.abort()
        assert await settled(client, [partition]) == [b"new"]

    target.run(work)


def test_offsets_of_a_member_that_lost_its_group_make_the_transaction_fail(target: Target) -> None:
    async def work(client: Client) -> None:
        name = group = "txn-generation"
        (partition,) = await made(client, name)
        async with producing(client, name) as producer:
            await producer.begin()
            await producer.send(name, b"aborted")
            with pytest.raises(MustAbort, match=r"illegal_generation|unknown_member_id") as failed:
                await producer.send_offsets({partition: Committed(5)}, GroupMetadata(group, 7, "no-such-member"))
            assert isinstance(failed.value.__cause__, Refused)
            with pytest.raises(MustAbort, match="Abort the transaction, then repeat its work in a new one"):
                await producer.commit()
            await producer.abort()
            async with producer.transaction():
                await producer.send(name, b"committed")
        assert await settled(client, [partition]) == [b"committed"]
        assert await group_offsets.fetch(client, group) == {}

    target.run(work)


def test_a_record_that_is_refused_makes_the_transaction_fail(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "txn-refused"
        assert await topics.create(client, [topics.NewTopic(name, 1, 1, configs={"max.message.bytes": "2000"})]) == {
            name: None
        }
        async with producing(client, name) as producer:
            await producer.begin()
            small = await producer.send(name, b"small")
            await small.place()
            large = await producer.send(name, bytes(5000))
            with pytest.raises(MustAbort, match="message_too_large"):
                await producer.commit()
            with pytest.raises(MustAbort, match="message_too_large"):
                await large.place()
            await producer.abort()
            with pytest.raises(Refused, match="unknown_topic_or_partition"):
                await topics.describe(client, ["txn-no-such-topic"])
            await producer.begin()
            with pytest.raises(MustAbort, match="unknown_topic_or_partition"):
                await producer.send("txn-no-such-topic", b"lost")
            with pytest.raises(MustAbort, match="unknown_topic_or_partition"):
                await producer.commit()
            await producer.abort()
            async with producer.transaction():
                await producer.send(name, b"committed")
        assert await settled(client, [TopicPartition(name, 0)]) == [b"committed"]

    target.run(work)


def test_a_record_that_cannot_be_encoded_makes_the_transaction_fail(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "txn-encoded"
        (partition,) = await made(client, name)
        text: Any = "not bytes"
        async with producing(client, name) as producer:
            await producer.begin()
            delivery = await producer.send(name, text)
            with pytest.raises(MustAbort, match="partition txn-encoded-0: cannot send the records: TypeError"):
                await producer.commit()
            with pytest.raises(MustAbort, match="cannot send the records"):
                await delivery.place()
            await producer.abort()
            async with producer.transaction():
                await producer.send(name, b"committed")
        assert await settled(client, [partition]) == [b"committed"]

    target.run(work)


def test_a_record_that_waits_for_room_fails_with_its_transaction(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isthmus_client.producer.IN_FLIGHT_BYTES_MAX", 100)

    async def work(client: Client) -> None:
        name = "txn-room"
        (partition,) = await made(client, name)
        async with TransactionalProducer(client, name, linger_seconds=SECONDS) as producer:
            await producer.init_transactions()
            await producer.begin()
            await producer.send(name, bytes(100))
            waiting = asyncio.create_task(producer.send(name, b"too late"))
            await asyncio.sleep(0)  # it runs until it waits
            assert not waiting.done()
            await producer.abort()
            with pytest.raises(IllegalCall, match="cannot call send"):
                await waiting
            async with producer.transaction():
                await producer.send(name, b"committed")
        assert await settled(client, [partition]) == [b"committed"]

    target.run(work)


def test_a_record_never_slips_into_the_next_transaction(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Producer._admit

    async def work(client: Client) -> None:
        name = "txn-slip"
        (partition,) = await made(client, name)
        gate = asyncio.Event()

        async def admit(producer: Producer, topic: str, size: int) -> Topic:
            await gate.wait()
            return await original(producer, topic, size)

        monkeypatch.setattr(Producer, "_admit", admit)
        async with producing(client, name) as producer:
            await producer.begin()
            waiting = asyncio.create_task(producer.send(name, b"too late"))
            await asyncio.sleep(0)  # it runs until it waits
            await producer.abort()
            await producer.begin()
            gate.set()
            with pytest.raises(IllegalCall, match="the transaction ended while a record waited to be buffered"):
                await waiting
            await producer.send(name, b"committed")
            await producer.commit()
        assert await settled(client, [partition]) == [b"committed"]

    target.run(work)


def test_a_transaction_that_times_out_is_aborted_by_the_coordinator(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "txn-timeout"
        (partition,) = await made(client, name)
        async with producing(client, name, timeout_ms=500) as producer:
            await producer.begin()
            place = await (await producer.send(name, b"late")).place()
            await settle(client, [partition])
            assert place.offset < (await ends(client, [partition], committed=True))[partition]
            if target.version < 2:  # the epoch was raised, as by another producer
                with pytest.raises(ProducerFenced):
                    await producer.commit()
                return
            with pytest.raises(MustAbort, match="invalid_txn_state"):
                await producer.commit()
            await producer.abort()
            async with producer.transaction():
                await producer.send(name, b"in time")
        assert await settled(client, [partition]) == [b"in time"]

    target.run(work)


def test_a_producer_follows_the_cluster_from_one_protocol_to_the_other(target: Target, network: Network) -> None:
    sent: list[ApiKey] = []

    def note(api: ApiKey) -> Fate:
        sent.append(api)
        return Fate.ARRIVES

    async def work(client: Client) -> None:
        name = group = "txn-upgrade"
        (partition,) = await made(client, name)
        network.decide = note
        async with producing(client, name) as producer:
            for number, version in enumerate((1, 2, 2, 1)):
                await set_transaction_version(client, version)
                sent.clear()
                async with producer.transaction():
                    await producer.send(name, b"%d" % number)
                    await producer.send_offsets({partition: Committed(number)}, GroupMetadata(group))
                added = {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN} & set(sent)
                assert len(added) == (2 if version == 1 else 0)
                assert sent.count(ApiKey.INIT_PRODUCER_ID) == (1 if number == 1 else 0)
        await set_transaction_version(client, target.version)
        assert await settled(client, [partition]) == [b"0", b"1", b"2", b"3"]
        assert (await group_offsets.fetch(client, group, require_stable=True))[partition].offset == 3

    target.run(work)


@pytest.mark.parametrize("protocol", list(GroupProtocol), ids=lambda one: one.value)
def test_records_are_consumed_transformed_and_produced_exactly_once(
    target: Target, network: Network, protocol: GroupProtocol
) -> None:
    source, sink = f"txn-source-{protocol.value}", f"txn-sink-{protocol.value}"
    count = 200

    async def work(client: Client) -> None:
        await made(client, source, 2)
        sinks = await made(client, sink, 2)
        async with Producer(client) as plain:
            for number in range(count):
                await plain.send(source, b"%d" % number, partition=number % 2)
        network.lose_at_random(0.1, seed=1, apis=TRANSACTIONAL)
        async with producing(client, source) as producer:
            for _ in range(4):
                await transform(client, producer, count // 4)
        network.lose_responses(ApiKey.PRODUCE, 0)
        copied = await settled(client, sinks)
        assert sorted(int(value or b"") for value in copied) == list(range(count))

    async def transform(client: Client, producer: TransactionalProducer, most: int) -> None:
        """A member that joins, copies some records in transactions, and leaves without committing otherwise."""
        async with Consumer(
            client, group_id=source, topics=[source], protocol=protocol, read_committed=True, reset=At.EARLIEST
        ) as consumer:
            left = most
            while left:
                records = await consumer.poll(10.0, most=min(left, 7))
                async with producer.transaction():
                    for one in records:
                        await producer.send(sink, one.record.value, partition=one.partition.partition)
                    await producer.send_offsets(consumer.offsets(), consumer.group_metadata())
                left -= len(records)

    target.run(work)


class Persistent:
    """A producer that repeats every transaction until it is committed, or aborted as intended."""

    def __init__(self, producer: TransactionalProducer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.committed: list[bytes] = []
        self.failures = 0

    async def transact(self, number: int, *, committed: bool) -> None:
        tries = 0
        while not await self._attempt(number, tries, committed=committed):
            tries += 1

    async def _attempt(self, number: int, tries: int, *, committed: bool) -> bool:
        await self._insist(self.producer.begin, GaveUp)
        records = [b"%d-%d-%d" % (number, tries, index) for index in range(6)]
        try:
            for index, record in enumerate(records):
                await self.producer.send(self.topic, record, partition=index % 3)
            offset = {TopicPartition(self.topic, 0): Committed(number)}
            await self.producer.send_offsets(offset, GroupMetadata(self.topic))
            await self._insist(self.producer.commit if committed else self.producer.abort, OutcomeUnknown)
        except MustAbort:
            self.failures += 1
            await self._insist(self.producer.abort, OutcomeUnknown)
            return False
        if committed:
            self.committed += records
        return True

    async def _insist(self, call: Callable[[], Awaitable[None]], repeatable: type[Exception]) -> None:
        while True:
            try:
                await call()
            except repeatable:
                self.failures += 1
            else:
                return


@pytest.mark.parametrize("seed", range(3))
def test_transactions_are_exact_on_a_network_that_loses_much(target: Target, network: Network, seed: int) -> None:
    """Committed records are read once, aborted ones never, whatever was lost and whenever the client gave up."""
    name = f"txn-chaos-{seed}"
    count = 30

    async def work(client: Client) -> None:
        partitions = await made(client, name, 3)
        async with target.client(operation_seconds=0.4) as impatient, producing(impatient, name) as producer:
            network.lose_at_random(0.4, seed, TRANSACTIONAL)
            persistent = Persistent(producer, name)
            for number in range(count):
                await persistent.transact(number, committed=number % 5 != 0)
            network.lose_responses(ApiKey.PRODUCE, 0)
        assert network.lost > count
        assert persistent.failures
        assert len(persistent.committed) == count * 6 * 4 // 5
        assert sorted(await settled(client, partitions), key=str) == sorted(persistent.committed, key=str)
        committed = await group_offsets.fetch(client, name, require_stable=True)
        assert committed == {partitions[0]: Committed(count - 1)}

    target.run(work)
