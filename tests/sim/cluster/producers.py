"""An idempotent producer with five batches in flight per partition, as librdkafka and the Java client have it.

The product's own producer sends one batch at a time; its connections, metadata and codecs are used here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from isthmus_client.client import Client
from isthmus_client.connection import Connection
from isthmus_client.errors import ClientError, Refused, check
from isthmus_client.metadata import TopicPartition
from isthmus_wire import produce as wire
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode, error_code
from isthmus_wire.messages import millis
from isthmus_wire.records import NewRecord, build_batch, next_sequence
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

from tests.histories import Acknowledged, Event, Sent
from tests.sim.cluster.process import current

IN_FLIGHT_MAX: Final = 5
_LANE: Final = "produce"
_SEQUENCE_LOST: Final = frozenset(
    {ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id, ErrorCode.invalid_producer_epoch}
)


class _Batch:
    def __init__(self, values: Sequence[tuple[bytes | None, bytes]], data: bytes) -> None:
        self.values = values
        self.data = data
        self.attempts = 0


class PipelinedProducer:
    """Sends to one partition until `is_finishing`."""

    def __init__(
        self,
        name: str,
        client: Client,
        partition: TopicPartition,
        record: Callable[[Event], None],
        random: Random,
        *,
        keys: int,
        think_max: float,
        request_seconds: float,
    ) -> None:
        """With `keys`, values belong to that many keys; `think_max` bounds the pause between batches."""
        self.name = name
        self.partition = partition
        self.acknowledged = 0
        self.is_finishing = False
        self.is_done = False
        self._client = client
        self._record = record
        self._random = random
        self._keys = keys
        self._think_max = think_max
        self._seconds = request_seconds
        self._identity: tuple[int, int] | None = None
        self._sequence = 0
        self._number = 0
        self._queue: deque[_Batch] = deque()
        self._is_filled = False
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Produce until `is_finishing`, and then until everything is acknowledged."""
        filling = asyncio.create_task(self._fill())
        while self._queue or not self._is_filled:
            self._changed.clear()
            await (self._deliver() if self._queue else self._changed.wait())
        await filling
        self.is_done = True

    async def _fill(self) -> None:
        """Make batches, at most as many as may be in flight."""
        while not self.is_finishing:
            await asyncio.sleep(self._think_max * self._random.random())
            if self._identity is None:
                await self._identify()
            for _ in range(self._random.randint(0, IN_FLIGHT_MAX - len(self._queue))):
                self._add_batch()
            self._changed.set()
        self._is_filled = True
        self._changed.set()

    async def _identify(self) -> None:
        request = entity(InitProducerIdRequest, transactional_id=None, transaction_timeout=millis(0))
        while self._identity is None:
            try:
                response = await self._client.send_to_any(ApiKey.INIT_PRODUCER_ID, request, _check_identity)
            except ClientError:
                await asyncio.sleep(0.05)
            else:
                self._identity, self._sequence = (response.producer_id, response.producer_epoch), 0

    def _add_batch(self) -> None:
        assert self._identity is not None
        values: list[tuple[bytes | None, bytes]] = []
        for _ in range(self._random.choice((1, 1, 2, 5))):
            self._number += 1
            key = b"k%d" % self._random.randrange(self._keys) if self._keys else None
            values.append((key, f"{self.name}:{self._number}".encode()))
        now = current().wall_ms()
        data = build_batch(
            [NewRecord(key, value, now) for key, value in values],
            producer_id=self._identity[0],
            producer_epoch=self._identity[1],
            base_sequence=self._sequence,
        )
        self._sequence = next_sequence(self._sequence, len(values))
        self._queue.append(_Batch(values, data))
        for key, value in values:
            self._record(Sent(self.name, self.partition, value, key))

    # -- delivery ------------------------------------------------------------------------------------------------------------

    async def _deliver(self) -> None:
        """Send what is queued in order; what fails is sent again, in the same order."""
        try:
            leader = (await self._client.leaders([self.partition]))[self.partition]
            if isinstance(leader, Refused):
                raise leader
            connection = await self._client.broker_connection(leader, _LANE)
        except ClientError as error:
            self._client.invalidate(error)
            await asyncio.sleep(0.05)
            return
        in_flight: deque[tuple[_Batch, asyncio.Task[wire.ProduceResult]]] = deque()
        unsent = deque(self._queue)
        failure: ClientError | None = None
        while in_flight or (unsent and failure is None):
            while unsent and failure is None and len(in_flight) < IN_FLIGHT_MAX:
                batch = unsent.popleft()
                batch.attempts += 1
                in_flight.append((batch, asyncio.create_task(self._exchange(connection, batch))))
            batch, exchange = in_flight.popleft()
            failure = await self._settle(batch, exchange, failure)
        if failure is not None:
            self._client.invalidate(failure)
            await asyncio.sleep(0.02 + 0.05 * self._random.random())

    async def _settle(
        self, batch: _Batch, exchange: asyncio.Task[wire.ProduceResult], failure: ClientError | None
    ) -> ClientError | None:
        """Handle one response. After a failure, later batches of the same flight are retried whatever their response is, unless they
        were appended."""
        try:
            result = await exchange
        except ClientError as error:
            return failure or error
        code = error_code(result.error_code)
        if code in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            if failure is None and self._queue and self._queue[0] is batch:
                self._queue.popleft()
                self._acknowledge(batch, result.base_offset)
            return failure
        if result.current_leader is not None:
            self._client.update_leader(self.partition, *result.current_leader)
        if code in _SEQUENCE_LOST and failure is None and self._queue and self._queue[0] is batch:
            self._start_again()
        return failure or Refused(code, str(self.partition))

    def _acknowledge(self, batch: _Batch, base_offset: int) -> None:
        for index, (_, value) in enumerate(batch.values):
            self._record(Acknowledged(self.partition, value, base_offset + index if base_offset >= 0 else -1))
        self.acknowledged += len(batch.values)

    def _start_again(self) -> None:
        """The leader does not continue this sequence: what is queued may have been appended or not, and is given up."""
        self._queue.clear()
        self._identity = None

    async def _exchange(self, connection: Connection, batch: _Batch) -> wire.ProduceResult:
        topic = self._client.view.topics.get(self.partition.topic)
        if topic is None or topic.topic_id is None:
            raise Refused(ErrorCode.unknown_topic_or_partition, str(self.partition))
        version = connection.versions.choose(ApiKey.PRODUCE)
        timeout_ms = int(self._seconds * 1000)
        request = wire.ProduceRequest(
            None, -1, timeout_ms, [(topic.topic_id.bytes, [(self.partition.partition, memoryview(batch.data))])]
        )
        body = wire.encode_produce_chunks(version, request)
        frame, start = await connection.exchange(ApiKey.PRODUCE, version, body, seconds=self._seconds + 0.5)
        response = wire.decode_produce_response(version, frame, start)
        return response.topics[0][1][0]


def _check_identity(response: Any) -> None:
    check(response.error_code, "producer id")
