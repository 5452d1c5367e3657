"""A producer of transactions: the records and consumed offsets of one become visible together, or never.

    async with TransactionalProducer(client, "payments-1") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("topic", b"value")
            await producer.send_offsets(consumer.offsets(), consumer.group_metadata())

`transaction` commits at the end of the block, and aborts when the block raises. After MustAbort, repeat the work in a new transaction;
after OutcomeUnknown, call `commit` or `abort` again; after ProducerUnusable, close the producer.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from isthmus_wire.compression import Compression
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.records import TRANSACTIONAL_BIT

from isthmus_client import transaction_requests
from isthmus_client.admin.group_offsets import Committed, GroupMetadata
from isthmus_client.batch_io import Appended, InTransaction, produce_batches
from isthmus_client.client import Client
from isthmus_client.coordinators import TransactionalId
from isthmus_client.errors import (
    ClientError,
    GaveUp,
    IllegalCall,
    MustAbort,
    OutcomeUnknown,
    ProducerFenced,
    ProtocolBroken,
    Refused,
)
from isthmus_client.limits import BATCH_BYTES, TRANSACTION_TIMEOUT_MS
from isthmus_client.metadata import Topic, TopicPartition
from isthmus_client.producer import LINGER_SECONDS, Producer
from isthmus_client.producer_ids import NO_PRODUCER_ID, raise_epoch
from isthmus_client.requests_by_broker import results
from isthmus_client.transaction_requests import EPOCH_PER_TRANSACTION
from isthmus_client.transaction_state import Call, TransactionState

_NO_VERSION: Final = -1


class TransactionalProducer(Producer):
    """A producer with a transactional id; leaving the block aborts an open transaction.

    After an error whose effect is unknown its epoch is not used again, so that late requests of an aborted transaction cannot become part
    of the next one (KIP-360).
    """

    _attributes = TRANSACTIONAL_BIT

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        compression: Compression = Compression.NONE,
        batch_bytes: int = BATCH_BYTES,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        """The coordinator aborts transactions that are open for longer than `timeout_ms`."""
        super().__init__(client, compression=compression, batch_bytes=batch_bytes, linger_seconds=linger_seconds)
        self._id = TransactionalId(transactional_id)
        self._timeout_ms = timeout_ms
        self._state = TransactionState(transactional_id)
        self._calls = asyncio.Lock()  # one call to the coordinator at a time
        self._producer = NO_PRODUCER_ID
        self._version = _NO_VERSION
        self._needs_epoch = False
        self._number = 0  # of the transaction
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        self._number += 1
        self._is_empty = True  # nothing was sent that may have begun it at the coordinator
        self._is_commit_sent = False
        self._partitions: set[TopicPartition] = set()  # added by this producer
        self._joining: dict[TopicPartition, None] = {}  # to be added, in this order
        self._groups: set[str] = set()

    async def __aexit__(self, *exc_info: object) -> None:
        if self._state.allows(Call.ABORT):
            with suppress(ProducerFenced):  # whatever fenced it has aborted the transaction
                await self.abort()

    # -- calls ---------------------------------------------------------------------------------------------------------------

    async def init_transactions(self) -> None:
        """Fence other producers with this transactional id and complete their transaction; call it once, before anything else."""
        async with self._calls:
            self._state.enter(Call.INIT)
            with self._failures():
                await self._raise_epoch(NO_PRODUCER_ID)
            self._state.complete()

    async def begin(self) -> None:
        """Begin a transaction."""
        async with self._calls:
            self._state.check(Call.BEGIN)
            with self._failures():
                await self._prepare()
            self._state.enter(Call.BEGIN)

    async def send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: GroupMetadata) -> None:
        """Commit a group's offsets when the transaction commits; the group must still have the member in the same generation."""
        async with self._calls:
            self._state.check(Call.SEND_OFFSETS)
            if not offsets:
                return
            self._is_empty = False
            try:
                with self._failures(is_append=True):
                    await self._send_offsets(offsets, group)
            except BaseException:
                self._needs_epoch = True
                raise

    async def commit(self) -> None:
        """Wait until every record is acknowledged, and commit."""
        async with self._calls:
            self._state.enter(Call.COMMIT)
            await self.flush()
            self._state.check(Call.COMMIT)  # a record may have failed
            await self._end(committed=True)

    async def abort(self) -> None:
        """Discard what is not sent, and abort."""
        async with self._calls:
            self._state.enter(Call.ABORT)
            if await self._discard(
                MustAbort(f"{self._id}: the transaction was aborted before the record was acknowledged")
            ):
                self._needs_epoch = True
            await self._end(committed=False)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Begin a transaction, and commit it at the end of the block, or abort it if the block raises."""
        await self.begin()
        try:
            yield
            await self.commit()
        except BaseException:
            if self._state.allows(Call.ABORT):
                await self.abort()
            raise

    @contextmanager
    def _failures(self, *, is_append: bool = False) -> Iterator[None]:
        """Record errors, and raise what they mean for the transaction."""
        try:
            yield
        except ClientError as error:
            failure = self._state.fail(error, is_append=is_append)
            if failure is error:
                raise
            raise failure from failure.__cause__

    # -- the coordinator -----------------------------------------------------------------------------------------------------

    async def _raise_epoch(self, expected: ProducerId) -> None:
        version = await transaction_requests.transaction_version(self._client, self._id)
        self._producer = await raise_epoch(self._client, self._id, self._timeout_ms, expected)
        self._version, self._needs_epoch = version, False

    async def _prepare(self) -> None:
        """Follow an upgrade of the cluster, and get a new epoch if the last transaction needs one."""
        version = await transaction_requests.transaction_version(self._client, self._id)
        is_upgrade = self._version < EPOCH_PER_TRANSACTION <= version
        if self._needs_epoch or is_upgrade:
            await self._raise_epoch(self._producer)
        self._version = version

    async def _send_offsets(self, offsets: Mapping[TopicPartition, Committed], group: GroupMetadata) -> None:
        if self._version < EPOCH_PER_TRANSACTION and group.group_id not in self._groups:
            await transaction_requests.add_group(self._client, self._id, self._producer, group.group_id)
            self._groups.add(group.group_id)
        await transaction_requests.commit_offsets(self._client, self._id, self._producer, group, offsets, self._version)

    async def _end(self, *, committed: bool) -> None:
        if not self._is_empty:
            self._is_commit_sent |= committed
            if committed:
                self._state.send_commit()
            with self._failures():
                try:
                    await self._end_at_coordinator(committed=committed)
                except (GaveUp, ProtocolBroken) as error:
                    call = Call.COMMIT.value if committed else Call.ABORT.value
                    raise OutcomeUnknown(
                        f"{error}. Call {call} again: until it succeeds, its outcome is unknown."
                    ) from error
        self._forget_transaction()
        self._state.complete()

    async def _end_at_coordinator(self, *, committed: bool) -> None:
        try:
            following = await transaction_requests.end(
                self._client, self._id, self._producer, self._version, committed=committed
            )
        except Refused as refused:
            if self._is_commit_sent or refused.code is not ErrorCode.invalid_txn_state:
                raise
            self._needs_epoch = True  # no partition has been added, but the request to add one may still be on its way
            return
        if following != self._producer:
            self._producer, self._needs_epoch = following, False

    # -- records -------------------------------------------------------------------------------------------------------------

    async def _admit(self, topic: str, size: int) -> Topic:
        self._state.check(Call.SEND)
        transaction = self._number
        with self._failures():
            metadata = await super()._admit(topic, size)
        self._state.check(Call.SEND)
        if self._number != transaction:
            raise IllegalCall(
                f"{self._id}: the transaction ended while a record waited to be buffered; send it in the next one"
            )
        return metadata

    async def _identify(self) -> ProducerId:
        self._state.check_append()
        return self._producer

    async def _append(self, partition: TopicPartition, batch: bytes) -> Appended:
        self._is_empty = False
        is_added_by_leader = self._version >= EPOCH_PER_TRANSACTION
        if not is_added_by_leader:
            await self._add(partition)
        transaction = InTransaction(self._id.name, is_added_by_leader)
        outcomes = await produce_batches(self._client, {partition: batch}, acks=self._acks, transaction=transaction)
        return results(outcomes)[partition]

    async def _add(self, partition: TopicPartition) -> None:
        """Add a partition to the transaction, and with it all others that wait for it."""
        if partition in self._partitions:
            return
        self._joining[partition] = None
        async with self._identifying:
            self._state.check_append()
            if partition in self._partitions:
                return
            joining = list(self._joining)
            await transaction_requests.add_partitions(self._client, self._id, self._producer, joining)
            self._partitions.update(joining)
            for one in joining:
                del self._joining[one]

    def _failed(self, identity: ProducerId | None, error: ClientError) -> ClientError:
        if identity is not None:
            self._needs_epoch = True
        return self._state.fail(error, is_append=True)
