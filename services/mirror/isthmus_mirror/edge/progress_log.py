"""The topic of progress in the target: one compacted partition that every mirror of the flow reads."""

import asyncio
from collections.abc import Collection, Sequence
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
from isthmus_mirror.core.written import Written, decode_written, written_key

_LIMITS: Final = FetchLimits(wait_ms=100, read_committed=True)
_LANE: Final = "progress"
_PAUSE_SECONDS: Final = 0.1
_STABLE_SECONDS: Final = 30.0
"""A transaction that is open for longer fails the reading, which is repeated."""


async def make_compacted(client: Client, name: str, replication_factor: int) -> None:
    """Create a compacted topic of one partition unless it exists. Raises ClientError."""
    topic = topics.NewTopic(name, 1, replication_factor, configs={"cleanup.policy": "compact"})
    refused = (await topics.create(client, [topic]))[name]
    if refused is not None and refused.code is not ErrorCode.topic_already_exists:
        raise refused


class ProgressReader:
    """What the flows from one source have recorded in a cluster."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._partition = TopicPartition(name, 0)
        self._jumps: dict[Copy, Jumps] = {}
        self._written: dict[Copy, dict[int, Sequence[Written]]] = {}
        self._position = 0
        self._reading = asyncio.Lock()

    async def read_to_end(self) -> None:
        """Read everything that is durable at the time of the call, when its transactions are complete; raises ClientError."""
        async with self._reading:
            end = results(await list_offsets(self._client, {self._partition: At.LATEST}))[self._partition].offset
            if self._position < end:
                try:
                    async with asyncio.timeout(_STABLE_SECONDS):
                        while self._position < end:
                            await self._read()
                except TimeoutError as error:
                    raise ClientError(
                        f"{self._partition.topic} cannot be read beyond offset {self._position}: a transaction is open"
                    ) from error

    async def _read(self) -> None:
        responses = await fetch_batches(self._client, {self._partition: FetchFrom(self._position)}, _LIMITS, lane=_LANE)
        response = responses[self._partition]
        if isinstance(response, ClientError):
            await asyncio.sleep(_PAUSE_SECONDS)
            raise response
        try:
            for record, following in visible_records(
                response.records, self._position, response.aborted, read_committed=True
            ):
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
        if kind is Kind.WRITTEN:
            self._replay_written(copy, mark.base, decode_written(value))
        elif runs := decode_runs(value):
            self.jumps(copy).keep(Jump(mark, runs), kind)
        else:
            self.jumps(copy).forget(mark, kind)

    def _replay_written(self, copy: Copy, base: int, runs: Sequence[Written]) -> None:
        records = self._written.setdefault(copy, {})
        if runs:
            records[base] = runs
        else:
            records.pop(base, None)

    def jumps(self, copy: Copy) -> Jumps:
        """The jumps of one copy that were read or written until now."""
        return self._jumps.setdefault(copy, Jumps())

    def written(self, copy: Copy) -> list[Written]:
        """What transactions wrote to one copy, as read until now, in order."""
        records = self._written.get(copy, {})
        return [run for base in sorted(records) for run in records[base]]


class ProgressLog(ProgressReader):
    """The progress of one flow."""

    def __init__(self, client: Client, name: str, replication_factor: int) -> None:
        super().__init__(client, name)
        self._replication_factor = replication_factor
        self._producer = Producer(client, linger_seconds=0.001)
        self._topic_exists = False

    @property
    def topic(self) -> str:
        """The name of its topic."""
        return self._partition.topic

    async def read_to_end(self) -> None:
        if not self._topic_exists:
            await make_compacted(self._client, self._partition.topic, self._replication_factor)
            self._topic_exists = True
        await super().read_to_end()

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

    async def delete_written(self, copy: Copy, before: int) -> None:
        """Delete the records of what retention has removed from the copy, except the last one; raises ClientError."""
        records = self._written.get(copy, {})
        outlived = [base for base in sorted(records)[:-1] if records[base][-1].stop <= before]
        sent = [
            await self._producer.send(self._partition.topic, None, key=written_key(copy, records[base][0]), partition=0)
            for base in outlived
        ]
        for delivery in sent:
            await delivery.place()
        for base in outlived:
            del records[base]

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
