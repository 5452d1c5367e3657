"""The topic of jumps in the target: one compacted partition that every mirror of the flow reads."""

import asyncio
from collections.abc import Collection
from typing import Final

from isthmus_client.admin import topics
from isthmus_client.admin.list_offsets import At, list_offsets
from isthmus_client.batch_io import FetchFrom, FetchLimits, fetch_batches
from isthmus_client.batch_reader import visible_records
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Producer
from isthmus_client.requests_by_broker import results
from isthmus_wire.errors import CorruptBatch, ErrorCode

from isthmus_mirror.core.progress import Copy, Jump, Jumps, Kind, decode_key, decode_runs, encode_key, encode_value

_LIMITS: Final = FetchLimits(wait_ms=100)
_LANE: Final = "progress"
_PAUSE_SECONDS: Final = 0.1


async def make_compacted(client: Client, name: str, replication_factor: int) -> None:
    """Create a compacted topic of one partition unless it exists. Raises ClientError."""
    topic = topics.NewTopic(name, 1, replication_factor, configs={"cleanup.policy": "compact"})
    refused = (await topics.create(client, [topic]))[name]
    if refused is not None and refused.code is not ErrorCode.topic_already_exists:
        raise refused


class ProgressLog:
    """The jumps of one flow."""

    def __init__(self, client: Client, name: str, replication_factor: int) -> None:
        self._jumps: dict[Copy, Jumps] = {}
        self._client = client
        self._partition = TopicPartition(name, 0)
        self._replication_factor = replication_factor
        self._producer = Producer(client, linger_seconds=0.001)
        self._position = 0
        self._reading = asyncio.Lock()
        self._topic_exists = False

    async def read_to_end(self) -> None:
        """Read all jumps that are durable at the time of the call; raises ClientError."""
        if not self._topic_exists:
            await make_compacted(self._client, self._partition.topic, self._replication_factor)
            self._topic_exists = True
        async with self._reading:
            end = results(await list_offsets(self._client, {self._partition: At.LATEST}))[self._partition].offset
            while self._position < end:
                await self._read()

    async def _read(self) -> None:
        responses = await fetch_batches(self._client, {self._partition: FetchFrom(self._position)}, _LIMITS, lane=_LANE)
        response = responses[self._partition]
        if isinstance(response, ClientError):
            await asyncio.sleep(_PAUSE_SECONDS)
            raise response
        try:
            for record, following in visible_records(response.records, self._position, (), read_committed=False):
                if record is not None:
                    self._replay(record.key, record.value)
                self._position = following
        except CorruptBatch as error:
            raise ClientError(f"the records of {self._partition.topic} cannot be read: {error}") from error

    def _replay(self, key: bytes | None, value: bytes | None) -> None:
        key_parts = decode_key(key)
        if key_parts is None:
            return
        copy, mark, kind = key_parts
        if runs := decode_runs(value):
            self.jumps(copy).keep(Jump(mark, runs), kind)
        else:
            self.jumps(copy).forget(mark, kind)

    def jumps(self, copy: Copy) -> Jumps:
        """The jumps of one copy that were read or written until now."""
        return self._jumps.setdefault(copy, Jumps())

    async def propose(self, jumps: Collection[tuple[Copy, Jump]]) -> None:
        """Write proposed jumps; returns when they are durable. Raises ClientError."""
        await self._write([(copy, jump, Kind.PROPOSED, True) for copy, jump in jumps])

    async def confirm(self, jumps: Collection[tuple[Copy, Jump]]) -> None:
        """Write jumps as certain; returns when they are durable. Raises ClientError."""
        certain = [(copy, jump, Kind.CERTAIN, True) for copy, jump in jumps]
        await self._write([*certain, *((copy, jump, Kind.PROPOSED, False) for copy, jump in jumps)])

    async def delete(self, jumps: Collection[tuple[Copy, Jump]], kind: Kind) -> None:
        """Delete jumps that are no longer needed; raises ClientError."""
        await self._write([(copy, jump, kind, False) for copy, jump in jumps])

    async def _write(self, changes: Collection[tuple[Copy, Jump, Kind, bool]]) -> None:
        """Write changes in this order; the last item of each says whether the jump is kept."""
        name = self._partition.topic
        sent = [
            await self._producer.send(
                name, encode_value(jump) if kept else None, key=encode_key(copy, jump.mark, kind), partition=0
            )
            for copy, jump, kind, kept in changes
        ]
        for delivery in sent:
            await delivery.place()
        for copy, jump, kind, kept in changes:
            if kept:
                self.jumps(copy).keep(jump, kind)
            else:
                self.jumps(copy).forget(jump.mark, kind)
