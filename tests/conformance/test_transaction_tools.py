"""Administration of transactions, by the client library and the command, against a node and against Apache Kafka."""

import asyncio
import json
import subprocess
from typing import Any

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
from tests.process import ISTHMUS

pytestmark = pytest.mark.parametrize("target", [(kind, 2) for kind in RUNNING], ids=list(RUNNING), indirect=True)
NO_ONES = ProducerId(987_654, 3)


def isthmus(target: Target, *arguments: str, given: str = "", status: int = 0) -> str:
    """What it prints; on standard error when the status says that it failed."""
    done = subprocess.run(
        [ISTHMUS, *arguments, "-b", target.bootstrap], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def documents(target: Target, *arguments: str) -> Any:
    return json.loads(isthmus(target, *arguments, "-o", "json"))


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


async def opened_in(client: Client, partition: TopicPartition) -> list[tuple[int, int]]:
    """Producer and first offset of each open transaction."""
    opened = await transactions.open_transactions(client, [partition])
    return [(one.producer.producer_id, one.producer.transaction_start) for one in opened]


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


def test_the_command_lists_and_describes(target: Target) -> None:
    async def work(client: Client) -> None:
        name = "cli-txn"
        await made(client, name)
        async with producing(client, name) as producer:
            await producer.begin()
            await (await producer.send(name, b"v")).place()
            await asyncio.to_thread(check, name)

    def check(name: str) -> None:
        (listed,) = documents(target, "transaction", "list", "--state", "Ongoing", "--transactional-id-pattern", name)
        assert (listed["transactional_id"], listed["state"], listed["coordinator"]) == (name, "Ongoing", 1)
        assert documents(target, "transaction", "list", "--duration-filter", "600000", "--state", "Ongoing") == []
        (row,) = documents(target, "transaction", "describe", name)
        assert (row["state"], row["timeout_ms"], row["partitions"]) == ("Ongoing", 60_000, ["cli-txn-0"])
        assert 0 <= row["duration_ms"] < SECONDS * 1000
        (state,) = documents(target, "transaction", "describe-producers", name, "-p", "0")
        assert (state["producer_id"], state["start_offset"]) == (row["producer_id"], 0)
        assert isthmus(target, "transaction", "describe", name).split()[:4] == [
            *("TRANSACTIONAL", "ID", "COORDINATOR", "PRODUCER")
        ]
        assert isthmus(target, "transaction", "describe", "cli-txn-unknown", status=1) == (
            "isthmus: transactional id cli-txn-unknown: transactional_id_not_found: there is no such transactional id, or it has expired\n"
        )
        refused = isthmus(target, "transaction", "abort", name, "-p", "0", "--start-offset", "0", given="n\n", status=1)
        assert "The transaction begins at offset 0." in refused
        assert (
            "Warning: it does not hang. The coordinator of transactional id cli-txn still has it (Ongoing)" in refused
        )
        assert "read_committed consumers never see it. This cannot be undone." in refused
        assert refused.endswith("isthmus: nothing was changed; confirm with y, or with --yes\n")
        refused = isthmus(target, "transaction", "force-terminate", name, status=1)
        assert "Producers with transactional id cli-txn are fenced" in refused
        done = isthmus(target, "transaction", "force-terminate", name, "--yes")
        assert done.startswith("transactional id cli-txn: transaction aborted, producer ")

    target.run(work)


def test_the_command_finds_and_aborts_hanging_transactions(target: Target) -> None:
    name = "cli-hanging"
    partition = TopicPartition(name, 0)

    async def begin(client: Client) -> None:
        await made(client, name)
        await hang(client, partition)

    target.run(begin)
    search = ("transaction", "find-hanging", "--topic", name)
    assert documents(target, *search) == []
    (found,) = documents(target, *search, "--max-transaction-timeout", "0")
    assert (found["topic"], found["partition"], found["producer_id"], found["start_offset"]) == (name, 0, NO_ONES.id, 0)
    assert documents(target, "transaction", "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0") == [
        found
    ]
    abort = ("transaction", "abort", name, "-p", "0")
    assert "no open transaction of partition cli-hanging-0 begins at offset 5; open transactions begin at 0" in isthmus(
        target, *abort, "--start-offset", "5", "--yes", status=1
    )
    assert isthmus(target, *abort, "--start-offset", "0", given="y\n") == (
        "partition cli-hanging-0: transaction of producer 987654 aborted\n"
    )
    assert documents(target, *search, "--max-transaction-timeout", "0") == []
    target.run(lambda client: hang(client, partition, ProducerId(NO_ONES.id + 1, 0)))
    exact = ("--producer-id", str(NO_ONES.id + 1), "--producer-epoch", "0", "--coordinator-epoch", "0")
    assert isthmus(target, *abort, *exact, "--yes") == (
        "partition cli-hanging-0: transaction of producer 987655 aborted\n"
    )
    assert target.run(lambda client: opened_in(client, partition)) == []


def test_the_command_writes_one_transaction_and_reads_what_is_committed(target: Target) -> None:
    isthmus(target, "topic", "create", "cli-io", "-p", "1")
    write = ("produce", "cli-io", "--transactional-id", "cli-io", "-K", ":")
    isthmus(target, *write, given="k:1\nk:2\n")
    refused = isthmus(target, *write, given="k:3\nno separator\n", status=1)
    assert refused == "isthmus: a line without the key separator ':': b'no separator'; the transaction was aborted\n"
    isthmus(target, *write, given="k:4\n")
    target.run(lambda client: settled(client, [TopicPartition("cli-io", 0)]))
    read = ("consume", "cli-io", "--from-beginning", "--until-end")
    assert isthmus(target, *read, "--isolation-level", "read_committed") == "1\n2\n4\n"
    assert isthmus(target, *read).startswith("1\n2\n")


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
