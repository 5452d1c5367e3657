"""Checks with transaction coordinators that partitions are part of a transaction, or adds them to it (KIP-890).

Requests to a coordinator on another broker are collected: one AddPartitionsToTxn carries the transactions of many producers.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from isthmus_model.clocks import MonotonicClock
from isthmus_model.endpoints import Endpoint
from isthmus_model.internal_topics import TRANSACTIONS_TOPIC
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.requests import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.transaction.records import TopicPartition
from isthmus_broker.core.transaction.requests import AddPartitions, Verified
from isthmus_broker.edge.coordinators.broker_queues import BrokerQueues
from isthmus_broker.edge.coordinators.counts import Verifications
from isthmus_broker.edge.coordinators.transactions import Transactions

if TYPE_CHECKING:
    from isthmus_client.connection import Connection

BROKERS_SINCE: Final = 4
"""The first version of AddPartitionsToTxn that brokers send."""
Errors = Mapping[TopicPartition, ErrorCode]


class _Check(NamedTuple):
    """A request and its response."""

    request: AddPartitions
    errors: "asyncio.Future[Errors]"

    def settle(self, error: ErrorCode) -> None:
        """The same error for all partitions."""
        if not self.errors.done():
            self.errors.set_result(dict.fromkeys(self.request.partitions, error))


class Verifier:
    """The checks of this node."""

    def __init__(
        self,
        node_id: int,
        transactions: Transactions,
        address_of: Callable[[int], Endpoint | None],
        image: Callable[[], ClusterImage],
        timeout_ms: int,
        monotonic: MonotonicClock,
    ) -> None:
        self.verifications = Verifications()
        self._monotonic = monotonic
        self._node_id = node_id
        self._transactions = transactions
        self._image = image
        self._queues: BrokerQueues[_Check] = BrokerQueues(
            f"broker-{node_id}-transaction-verifier", address_of, timeout_ms / 1000, _exchange, _failed
        )

    async def check(self, request: AddPartitions) -> Errors:
        """The error of each partition; NONE for one that is part of the transaction now."""
        coordinator = self._coordinator_of(request.transactional_id)
        if coordinator is None:
            self.verifications.failures += len(request.partitions)
            return dict.fromkeys(request.partitions, ErrorCode.coordinator_not_available)
        began = self._monotonic()
        errors = await self._ask(coordinator, request)
        self.verifications.responses += 1
        self.verifications.milliseconds += self._monotonic() - began
        self.verifications.failures += sum(error is not ErrorCode.none for error in errors.values())
        return errors

    def _coordinator_of(self, transactional_id: str) -> int | None:
        topic = self._image().topics.named(TRANSACTIONS_TOPIC)
        partition = None if topic is None else topic.partitions.get(self._transactions.shard_of(transactional_id))
        return None if partition is None or partition.leader < 0 else partition.leader

    async def _ask(self, coordinator: int, request: AddPartitions) -> Errors:
        if coordinator == self._node_id:
            verified = await self._transactions.call(request)
            assert isinstance(verified, Verified)
            return verified.errors
        check = _Check(request, asyncio.get_running_loop().create_future())
        if self._supersedes(coordinator, check):
            self._queues.add(coordinator, check)
        return await check.errors

    def disconnect(self, broker: int) -> None:
        """Fail the checks in flight to that broker; the clients repeat them."""
        self._queues.disconnect(broker)

    def stop(self) -> None:
        """Close every connection."""
        self._queues.stop()

    def _supersedes(self, broker: int, check: _Check) -> bool:
        """Whether the check is to be sent: a queued one of the same transactional id gives way, unless it is of a newer epoch."""
        waiting = self._queues.waiting(broker)
        for queued in waiting:
            if queued.request.transactional_id != check.request.transactional_id:
                continue
            before, after = queued.request.producer.epoch, check.request.producer.epoch
            if after < before:
                check.settle(ErrorCode.invalid_producer_epoch)
                return False
            queued.settle(ErrorCode.invalid_producer_epoch if before < after else ErrorCode.network_exception)
            waiting.remove(queued)
            return True
        return True


async def _exchange(connection: "Connection", checks: list[_Check]) -> None:
    request = AddPartitionsToTxnRequest(transactions=tuple(_transaction(check.request) for check in checks))
    response: AddPartitionsToTxnResponse = await connection.request(
        ApiKey.ADD_PARTITIONS_TO_TXN, request, at_least=BROKERS_SINCE
    )
    errors: dict[str, Errors] = {
        result.transactional_id: {
            TopicPartition(topic.name, one.partition_index): one.partition_error_code
            for topic in result.topic_results
            for one in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
    for check in checks:
        of_check = errors.get(check.request.transactional_id)
        if response.error_code is not ErrorCode.none or of_check is None:
            check.settle(response.error_code or ErrorCode.unknown_server_error)
        elif not check.errors.done():
            check.errors.set_result(of_check)


def _failed(checks: list[_Check]) -> None:
    for check in checks:
        check.settle(ErrorCode.network_exception)


def _transaction(request: AddPartitions) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(request.partitions):
        topics.setdefault(topic, []).append(index)
    return entity(
        AddPartitionsToTxnTransaction,
        transactional_id=request.transactional_id,
        producer_id=request.producer.id,
        producer_epoch=request.producer.epoch,
        verify_only=request.verify_only,
        topics=tuple(
            entity(AddPartitionsToTxnTopic, name=name, partitions=tuple(indexes)) for name, indexes in topics.items()
        ),
    )
