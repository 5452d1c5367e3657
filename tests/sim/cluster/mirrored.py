"""A mirror topic: the log of its source, which has gaps, leader epochs and transactions, and the worker of a link that copies it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from isthmus_client.admin.links import create_link, describe_links
from isthmus_client.admin.mirrors import create_mirror, raise_leader_epochs
from isthmus_client.append_mirrored import Batches, append_mirrored, progress
from isthmus_client.client import Client
from isthmus_client.errors import ClientError
from isthmus_client.metadata import TopicPartition
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.mirrors import SourceTopic
from isthmus_wire.records import NewRecord, build_batch, build_control_batch

from tests.histories import Acknowledged, Ending, Event, Sent
from tests.sim.cluster.process import current

MIRRORED: Final = TopicPartition("mirrored", 0)
SOURCE_TOPIC: Final = SourceTopic(topic_id=UUID(int=1 << 90), partitions=1, configs=())
_LINK: Final = "west"
_TRANSACTIONAL: Final = 0x10
_ABORT, _COMMIT = 0, 1
_PRODUCERS: Final = 3


class SourceBatch(NamedTuple):
    """One batch of the source; markers have no values."""

    base: int
    end: int
    epoch: int
    values: tuple[bytes, ...]
    data: bytes


class SourceLog:
    """The source's log, which grows at random."""

    def __init__(self, record: Callable[[Event], None], random: Random) -> None:
        self.batches: list[SourceBatch] = []
        self._record = record
        self._random = random
        self._end = 0
        self._epoch = 0
        self._values = 0
        self._transactions = 0
        self._open: dict[int, str] = {}
        """The open transaction of each producer."""
        self._sequences: dict[int, int] = {}

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def grow(self) -> None:
        """Add a batch: plain, of a transaction, or the end of one."""
        random = self._random
        self._epoch += random.random() < 0.05
        if random.random() < 0.1:
            self._end += random.randint(1, 9)  # the source is compacted
        if self._open and random.random() < 0.3:
            self._end_transaction(random.choice(sorted(self._open)))
        else:
            self._append(random.choice((None, *range(_PRODUCERS))))

    def _append(self, producer: int | None) -> None:
        values = []
        for _ in range(self._random.choice((1, 2, 5))):
            self._values += 1
            values.append(b"source:%d" % self._values)
        transaction, fields = None, {}
        if producer is not None:
            transaction = self._open.get(producer)
            if transaction is None:
                self._transactions += 1
                transaction = self._open[producer] = f"transaction {self._transactions}"
            sequence = self._sequences.get(producer, 0)
            self._sequences[producer] = sequence + len(values)
            fields = {
                "attributes": _TRANSACTIONAL, "producer_id": producer, "producer_epoch": 0, "base_sequence": sequence
            }  # fmt: skip
        now = current().wall_ms()
        data = build_batch(
            [NewRecord(None, value, now) for value in values],
            base_offset=self._end,
            leader_epoch=self._epoch,
            **fields,
        )
        for value in values:
            self._record(Sent("source", MIRRORED, value, transaction=transaction))
        self._add(data, tuple(values), len(values))

    def _end_transaction(self, producer: int) -> None:
        commits = self._random.random() < 0.5
        self._record(Ending(self._open.pop(producer), commits))
        marker = build_control_batch(
            _COMMIT if commits else _ABORT,
            bytes(6),
            timestamp=current().wall_ms(),
            base_offset=self._end,
            leader_epoch=self._epoch,
            producer_id=producer,
            producer_epoch=0,
        )
        self._add(marker, (), 1)

    def _add(self, data: bytes, values: tuple[bytes, ...], count: int) -> None:
        self.batches.append(SourceBatch(self._end, self._end + count, self._epoch, values, data))
        self._end += count


class LinkWorker:
    """Creates the mirror topic and copies the source until `is_finishing`, and then what is left."""

    def __init__(self, client: Client, record: Callable[[Event], None], random: Random) -> None:
        self.is_finishing = False
        self.is_done = False
        self.acknowledged = 0
        """The end offset of what was acknowledged."""
        self._client = client
        self._record = record
        self._random = random
        self._source = SourceLog(record, random)

    async def run(self) -> None:
        """Copy until everything is acknowledged."""
        link_id: UUID | None = None
        while not self.is_done:
            if not self.is_finishing:
                for _ in range(self._random.randint(0, 4)):
                    self._source.grow()
            try:
                if link_id is None:
                    link_id = (await describe_links(self._client, [_LINK]))[0].link_id
                    assert link_id is not None
                await self._copy(link_id)
            except ClientError as error:
                self._client.invalidate(error)
            self.is_done = self.is_finishing and self.acknowledged >= self._source.end
            await asyncio.sleep(0.2 * self._random.random())

    async def _copy(self, link_id: UUID) -> None:
        """Append some of what the copy does not have, at the offset at which its leader's log ends."""
        ends = (await progress(self._client, [MIRRORED]))[MIRRORED]
        if isinstance(ends, ClientError):
            raise ends
        self._acknowledge(ends.high_watermark)
        missing = [batch for batch in self._source.batches if batch.base >= ends.log_end_offset]
        if not missing:
            return
        sent = missing[: self._random.randint(1, 6)]
        epoch = max((batch.epoch for batch in sent), default=0)
        append = Batches(ends.log_end_offset, b"".join(batch.data for batch in sent), self._source.end, epoch)
        end = (await append_mirrored(self._client, link_id, {MIRRORED: append}))[MIRRORED]
        if isinstance(end, ClientError):
            raise end
        if end.refused is None:
            self._acknowledge(end.log_end)
        elif end.refused.code is ErrorCode.fenced_leader_epoch:
            await raise_leader_epochs(self._client, {MIRRORED: epoch + 10})
        else:
            raise end.refused

    def _acknowledge(self, end: int) -> None:
        """Everything below that offset is committed."""
        for batch in self._source.batches:
            if self.acknowledged < batch.end <= end:
                for index, value in enumerate(batch.values):
                    self._record(Acknowledged(MIRRORED, value, batch.base + index))
        self.acknowledged = max(self.acknowledged, end)


async def create_mirror_topic(client: Client) -> None:
    """Create the link and its mirror topic, unless they exist; raises ClientError."""
    known = {link.name for link in await describe_links(client)}
    if _LINK not in known:
        configs = {"bootstrap.servers": "source:9092"}
        await create_link(client, _LINK, configs, source_cluster_id="source", validate_link=False)
    await create_mirror(client, _LINK, MIRRORED.topic)
