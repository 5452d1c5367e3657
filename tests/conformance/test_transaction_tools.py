"""Administration of transactions against a node and against Apache Kafka."""

import asyncio

import pytest
from isthmus_client.admin import configs, transactions
from isthmus_client.admin.cluster import producers
from isthmus_client.admin.transactions import Transaction
from isthmus_client.batch_io import InTransaction, produce_batches
from isthmus_client.client import Client
from isthmus_client.clock import wall_ms
from isthmus_client.errors import ClientError, ProducerFenced, Refused
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Producer
from isthmus_client.requests_by_broker import results
from isthmus_model.config_resources import ResourceType
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.records import TRANSACTIONAL_BIT, NewRecord, build_batch

from tests.conformance.transactions import RUNNING, SECONDS, Target, made, producing, settled, values

pytestmark = pytest.mark.parametrize("target", [(kind, 2) for kind in RUNNING], ids=list(RUNNING), indirect=True)
NO_ONES = ProducerId(987_654, 3)


async def hang(client: Client, partition: TopicPartition, producer: ProducerId = NO_ONES) -> None:
    """Append a record of a transaction that no coordinator has, as clients could before leaders verified it."""
    await verify_partitions(client, enabled=False)
    batch = build_batch(
        [NewRecord(None, b"hanging", wall_ms())],
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        attributes=TRANSACTIONAL_BIT,
    )
    transaction = InTransaction("no-such-id", is_added_by_leader=False)
    results(await produce_batches(client, {partition: batch}, transaction=transaction))
    await verify_partitions(client, enabled=True)


async def verify_partitions(client: Client, *, enabled: bool) -> None:
    name = "transaction.partition.verification.enable"
    resource = configs.Resource(ResourceType.BROKER, "1")
    change = configs.Change(name, configs.Operation.SET, str(enabled).lower())
    assert await configs.alter(client, {resource: [change]}) == {resource: None}
    async with asyncio.timeout(SECONDS):
        while await setting(client, resource, name) != change.value:  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.05)


async def setting(client: Client, resource: configs.Resource, name: str) -> str | None:
    described = results(await configs.describe(client, [resource]))[resource]
    return next(config.value for config in described if config.name == name)


def test_transactions_are_listed_by_every_filter(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "tools-list"
        await made(client, name)
        async with producing(client, f"{name}-ended") as ended, producing(client, f"{name}-open") as going:
            async with ended.transaction():
                await ended.send(name, b"v")
            await going.begin()
            await (await going.send(name, b"v")).place()
            pattern = f"{name}-.*"
            await completed(client, f"{name}-ended")
            listed = await transactions.list_transactions(client, pattern=pattern)
            assert [(one.transactional_id, one.coordinator, one.state) for one in listed] == [
                (f"{name}-ended", 1, "CompleteCommit"),
                (f"{name}-open", 1, "Ongoing"),
            ]
            _, current = listed
            assert await transactions.list_transactions(client, ["Ongoing"], pattern=pattern) == [current]
            assert await transactions.list_transactions(client, producer_ids=[current.producer_id]) == [current]
            assert await transactions.list_transactions(client, pattern=f"{name}-o") == []
            assert current not in await transactions.list_transactions(client, longer_than_ms=600_000)
            assert current in await transactions.list_transactions(client, longer_than_ms=0)
        with pytest.raises(ClientError, match="there is no transaction state Nonsense; states are Empty, Ongoing,"):
            await transactions.list_transactions(client, ["Nonsense"])
        with pytest.raises(Refused, match="the pattern is not a valid RE2 expression"):
            await transactions.list_transactions(client, pattern="(")

    target.run(work)


def test_a_transaction_is_described_while_it_is_open_and_afterwards(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "tools-describe"
        first, second = await made(client, name, 2)
        began = wall_ms()
        async with producing(client, name, timeout_ms=45_000) as producer:
            before = await described(client, name)
            assert (before.state, before.start_ms, before.partitions) == ("Empty", None, ())
            await producer.begin()
            for partition in (first, second):
                await (await producer.send(name, b"v", partition=partition.partition)).place()
            during = await described(client, name)
            assert (during.state, during.timeout_ms, during.coordinator) == ("Ongoing", 45_000, 1)
            assert during.partitions == (first, second)
            assert during.start_ms is not None
            assert began <= during.start_ms <= wall_ms()
            (state,) = results(await producers(client, [first]))[first]
            assert (ProducerId(state.producer_id, state.epoch), state.transaction_start) == (during.producer, 0)
            assert await producers(client, [first], broker=1) == await producers(client, [first])
        outcomes = await transactions.describe_transactions(client, ["tools-no-such-id", name])
        assert list(outcomes) == ["tools-no-such-id", name]
        refused = outcomes["tools-no-such-id"]
        assert isinstance(refused, Refused)
        assert refused.code is ErrorCode.transactional_id_not_found

    target.run(work)


async def completed(client: Client, name: str) -> None:
    """Wait until the markers are written."""
    async with asyncio.timeout(SECONDS):
        while not (await described(client, name)).state.startswith("Complete"):  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.05)


async def described(client: Client, name: str) -> Transaction:
    return results(await transactions.describe_transactions(client, [name]))[name]


def test_a_hanging_transaction_is_found_and_aborted(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "tools-hanging"
        first, second = await made(client, name, 2)
        async with Producer(client, linger_seconds=0) as plain, producing(client, name) as producer:
            await hang(client, first)
            await (await plain.send(name, b"behind", partition=0)).place()
            await producer.begin()
            await (await producer.send(name, b"open", partition=1)).place()
            assert await values(client, [first]) == []
            later = wall_ms() + 1000
            (found,) = await transactions.find_hanging(client, [first, second], 0, later)
            assert (found.partition, found.producer.producer_id, found.producer.epoch) == (first, *NO_ONES)
            assert found == (await transactions.find_hanging(client, [first, second], 0, later, broker=1))[0]
            assert await transactions.find_hanging(client, [first, second], 3_600_000, later) == []
            await transactions.abort_transaction(client, first, NO_ONES, 0)
            assert await transactions.find_hanging(client, [first, second], 0, later) == []
            await producer.commit()
        assert await settled(client, [first, second]) == [b"behind", b"open"]
        with pytest.raises(Refused, match="partition tools-hanging-0, producer 987654: invalid_producer_epoch"):
            await transactions.abort_transaction(client, first, ProducerId(NO_ONES.id, NO_ONES.epoch - 1), 0)

    target.run(work)


def test_fencing_a_producer_aborts_its_transaction(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "tools-fence"
        (partition,) = await made(client, name)
        async with producing(client, name, timeout_ms=30_000) as producer:
            await producer.begin()
            await (await producer.send(name, b"aborted")).place()
            outcomes = await transactions.fence_producers(client, [name, "tools-fence-unknown"])
            assert isinstance(outcomes[name], ProducerId)
            unknown = outcomes["tools-fence-unknown"]
            assert isinstance(unknown, Refused)
            assert unknown.code is ErrorCode.transactional_id_not_found
            with pytest.raises(ProducerFenced):
                await producer.commit()
        assert await settled(client, [partition]) == []
        assert (await described(client, name)).timeout_ms == 30_000

    target.run(work)


def test_a_transaction_of_a_known_producer_hangs_where_its_coordinator_does_not_have_it(target: Target) -> None:

    async def work(client: Client) -> None:
        (first, second) = await made(client, "tools-known", 2)
        async with producing(client, "tools-known") as producer:
            await producer.begin()
            await (await producer.send("tools-known", b"v", partition=1)).place()
            current = await described(client, "tools-known")
            await hang(client, first, current.producer)
            hanging = await transactions.find_hanging(client, [first, second], 0, wall_ms() + 1000)
            assert [one.partition for one in hanging] == [first]
            await transactions.abort_transaction(client, first, current.producer, 0)

    target.run(work)
