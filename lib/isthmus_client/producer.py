"""A small producer of records: batches by size and time, idempotent, with one batch per partition in flight.

    async with Producer(client) as producer:
        delivery = await producer.send("topic", b"value", key=b"key")
        place = await delivery.place()

Records of one partition arrive in the order of `send`. When a batch fails permanently, its records fail, and later records continue under a
new producer id: a caller that needs strict order must stop at the first failure.
"""

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from isthmus_wire.compression import Compression
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.records import (
    FOREIGN_BITS,
    NO_PRODUCER,
    NewRecord,
    build_batch,
    header_at,
    next_sequence,
    readdress,
)

from isthmus_client.batch_io import ALL_IN_SYNC, Appended, produce_batches
from isthmus_client.client import Client
from isthmus_client.clock import wall_ms
from isthmus_client.errors import ClientError, Refused
from isthmus_client.limits import BATCH_BYTES, BATCH_RECORDS_MAX, IN_FLIGHT_BYTES_MAX
from isthmus_client.metadata import Topic, TopicPartition
from isthmus_client.partitioner import StickyChoice, partition_of_key
from isthmus_client.producer_ids import new_producer_id
from isthmus_client.requests_by_broker import results

LINGER_SECONDS: Final = 0.005
_RECORD_OVERHEAD: Final = 21
"""More than the lengths, the timestamp and the offset of a record ever take."""


class Place(NamedTuple):
    """Where a record was appended; offset -1 if the broker did not report it."""

    partition: TopicPartition
    offset: int


_NOT_IDEMPOTENT: Final = ProducerId(NO_PRODUCER, -1)


class _Batch:
    """Records of one partition that are sent together: new ones, or those of another log's batch."""

    def __init__(
        self, partition: TopicPartition, done: asyncio.Future[Appended], copied: memoryview | None = None
    ) -> None:
        self.partition = partition
        self.records: list[NewRecord] = []
        self.copied = copied
        self.size = 0 if copied is None else len(copied)
        self.done = done
        done.add_done_callback(_retrieve)

    @property
    def count(self) -> int:
        """The number of its records."""
        return len(self.records) if self.copied is None else header_at(self.copied).record_count

    def has_room_for(self, size: int, batch_bytes: int) -> bool:
        """Whether a record of this size can be added."""
        return self.copied is None and self.size + size <= batch_bytes and len(self.records) < BATCH_RECORDS_MAX

    def encoded(self, compression: Compression, attributes: int, producer: ProducerId, sequence: int) -> bytes:
        """The batch as it is sent."""
        if self.copied is None:
            return build_batch(
                self.records,
                compression=compression,
                attributes=attributes,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
            )
        batch = bytearray(self.copied)
        readdress(
            batch,
            attributes=header_at(batch).attributes & ~FOREIGN_BITS | attributes,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
        )
        return bytes(batch)

    def fail(self, error: ClientError) -> None:
        """Fail its records, unless they are acknowledged or have failed."""
        if not self.done.done():
            self.done.set_exception(error)


class Delivery:
    """A record in flight; `place` waits until it is acknowledged."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: _Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def done(self) -> bool:
        """Whether `place` returns at once."""
        return self._batch.done.done()

    async def place(self) -> Place:
        """Where the record was appended; raises ClientError if it was not delivered."""
        appended = await asyncio.shield(self._batch.done)
        is_reported = appended.base_offset >= 0
        return Place(self._batch.partition, appended.base_offset + self._index if is_reported else -1)


class _Queue:
    """The waiting batches of one partition, and the next sequence."""

    def __init__(self) -> None:
        self.batches: deque[_Batch] = deque()
        self.hurry = asyncio.Event()  # do not linger: a batch is full, or the producer flushes
        self.sender: asyncio.Task[None] | None = None
        self.sending: _Batch | None = None
        self.identity: ProducerId | None = None
        self.sequence = 0


class Producer:
    """A producer and async context manager; leaving the block sends what is buffered."""

    _attributes = 0  # of every batch

    def __init__(
        self,
        client: Client,
        *,
        acks: int = ALL_IN_SYNC,
        compression: Compression = Compression.NONE,
        batch_bytes: int = BATCH_BYTES,
        linger_seconds: float = LINGER_SECONDS,
        start: int | None = None,
    ) -> None:
        self._client = client
        self._acks = acks
        self._compression = compression
        self._batch_bytes = batch_bytes
        self._linger = linger_seconds
        self._queues: dict[TopicPartition, _Queue] = {}
        self._sticky = StickyChoice(random.randrange(1 << 16) if start is None else start)
        self._identity: ProducerId | None = None if acks == ALL_IN_SYNC else _NOT_IDEMPOTENT
        self._identifying = asyncio.Lock()
        self._bytes = 0
        self._room = asyncio.Condition()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.flush()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Buffer a record; waits only while too many bytes are in flight. Raises ClientError if the topic does not exist."""
        size = _size(key, value, headers)
        metadata = await self._admit(topic, size)
        index = self._choose(metadata, key) if partition is None else partition
        record = NewRecord(key, value, wall_ms() if timestamp is None else timestamp, headers)
        return self._enqueue(TopicPartition(topic, index), record, size)

    async def send_batch(self, partition: TopicPartition, batch: memoryview) -> Delivery:
        """Buffer a batch of another log, which keeps its records, compressed or not; the delivery is that of its first record."""
        await self._admit(partition.topic, len(batch))
        self._bytes += len(batch)
        copied = _Batch(partition, asyncio.get_running_loop().create_future(), batch)
        self._put(copied)
        return Delivery(copied, 0)

    async def _admit(self, topic: str, size: int) -> Topic:
        """Wait until a record may be buffered; returns its topic."""
        metadata = self._client.view.topics.get(topic) or await self._find(topic)
        if self._bytes and self._bytes + size > IN_FLIGHT_BYTES_MAX:
            async with self._room:
                await self._room.wait_for(lambda: not self._bytes or self._bytes + size <= IN_FLIGHT_BYTES_MAX)
        return metadata

    async def _find(self, topic: str) -> Topic:
        async def attempt() -> Topic:
            view = await self._client.metadata_of([topic])
            if topic not in view.topics:
                raise Refused(view.refused.get(topic, ErrorCode.unknown_topic_or_partition), f"topic {topic}")
            return view.topics[topic]

        return await self._client.retry(f"find topic {topic}", attempt)

    def _choose(self, topic: Topic, key: bytes | None) -> int:
        if key is not None:
            return partition_of_key(key, len(topic.partitions))
        with_leader = [p.index for p in topic.partitions.values() if p.leader >= 0]
        return self._sticky.current(with_leader or list(topic.partitions))

    def _enqueue(self, partition: TopicPartition, record: NewRecord, size: int) -> Delivery:
        queue = self._queues.get(partition)
        batch = queue.batches[-1] if queue is not None and queue.batches else None
        if batch is None or not batch.has_room_for(size, self._batch_bytes):
            batch = _Batch(partition, asyncio.get_running_loop().create_future())
            self._put(batch)
        batch.records.append(record)
        batch.size += size
        self._bytes += size
        return Delivery(batch, len(batch.records) - 1)

    def _put(self, batch: _Batch) -> None:
        """Queue a batch; the one before it is complete."""
        queue = self._queues.setdefault(batch.partition, _Queue())
        if queue.batches or batch.copied is not None:
            queue.hurry.set()
        queue.batches.append(batch)
        if queue.sender is None:
            queue.sender = asyncio.get_running_loop().create_task(self._send_all(queue))

    async def flush(self) -> None:
        """Wait until every buffered record is delivered or has failed."""
        while senders := [queue.sender for queue in self._queues.values() if queue.sender is not None]:
            for queue in self._queues.values():
                queue.hurry.set()
            await asyncio.wait(senders)

    async def _send_all(self, queue: _Queue) -> None:
        """Send one partition's batches one after another until none waits."""
        try:
            while queue.batches:
                await self._linger_for(queue)
                queue.sending = queue.batches.popleft()
                self._sticky.move()
                await self._deliver(queue, queue.sending)
                await self._release(queue.sending)
                queue.sending = None
        finally:
            if queue.sender is asyncio.current_task():
                queue.sender = queue.sending = None

    async def _release(self, batch: _Batch) -> None:
        async with self._room:
            self._bytes -= batch.size
            self._room.notify_all()

    async def _discard(self, error: ClientError) -> bool:
        """Fail every record that is not acknowledged; returns whether any of them may have been sent."""
        queues = [queue for queue in self._queues.values() if queue.sender is not None]
        senders = [queue.sender for queue in queues if queue.sender is not None]
        sent = [queue.sending for queue in queues if queue.sending is not None]
        discarded = [*sent, *(batch for queue in queues for batch in queue.batches)]
        for queue in queues:
            queue.batches.clear()
            queue.sender = queue.sending = None  # a sender that is cancelled before its first step cannot do it
        for batch in discarded:
            batch.fail(error)
        for sender in senders:
            sender.cancel()
        for batch in discarded:
            await self._release(batch)
        if senders:
            await asyncio.wait(senders)
        return bool(sent)

    async def _linger_for(self, queue: _Queue) -> None:
        if len(queue.batches) == 1:
            try:
                async with asyncio.timeout(self._linger):
                    await queue.hurry.wait()
            except TimeoutError:
                pass
        queue.hurry.clear()

    async def _deliver(self, queue: _Queue, batch: _Batch) -> None:
        identity: ProducerId | None = None
        try:
            identity = await self._identify()
            if queue.identity != identity:
                queue.identity, queue.sequence = identity, 0
            sequence = queue.sequence if identity is not _NOT_IDEMPOTENT else -1
            encoded = batch.encoded(self._compression, self._attributes, identity, sequence)
            outcome = await self._append(batch.partition, encoded)
        except ClientError as error:
            batch.fail(self._failed(identity, error))
            return
        except asyncio.CancelledError:
            batch.done.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - a value of a wrong type must not stop later records
            failure = ClientError(f"partition {batch.partition}: cannot send the records: {error!r}")
            failure.__cause__ = error
            batch.fail(self._failed(identity, failure))
            return
        queue.sequence = next_sequence(queue.sequence, batch.count)
        batch.done.set_result(outcome)

    async def _append(self, partition: TopicPartition, batch: bytes) -> Appended:
        """Append a batch; raises ClientError."""
        return results(await produce_batches(self._client, {partition: batch}, acks=self._acks))[partition]

    def _failed(self, identity: ProducerId | None, error: ClientError) -> ClientError:
        """React to a failed batch; returns the error of its records."""
        if identity is not None and identity == self._identity and identity is not _NOT_IDEMPOTENT:
            self._identity = None  # the batch may have been appended, so its sequence cannot be reused
        return error

    async def _identify(self) -> ProducerId:
        """The producer id and epoch of the next batch; raises ClientError."""
        async with self._identifying:
            if self._identity is None:
                self._identity = await new_producer_id(self._client)
            return self._identity


def _retrieve(done: asyncio.Future[Appended]) -> None:
    """Retrieve the exception, so that asyncio does not warn about deliveries that are not awaited."""
    if not done.cancelled():
        done.exception()


def _size(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += _RECORD_OVERHEAD + len(name) + len(content or b"")
    return size
