"""The log of the tier's metadata: the topic `__remote_log_metadata`, in which each change of a segment's state is a record.

A partition of a topic is followed: its records up to now are read once, by a reader of their own, and later ones as they are written. A
record that is written here has happened when it was read back, so all who follow a partition see its changes in one order.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from isthmus_client.admin import topics
from isthmus_client.admin.list_offsets import At
from isthmus_client.client import Client
from isthmus_client.consumer import ConsumedRecord, Consumer
from isthmus_client.errors import ClientError, LogTruncated, Refused
from isthmus_client.metadata import TopicPartition
from isthmus_client.producer import Producer
from isthmus_model.internal_topics import REMOTE_METADATA_TOPIC
from isthmus_wire.errors import DecodeError, ErrorCode

from isthmus_tier.core.metadata_partition import metadata_partition
from isthmus_tier.core.partition_segments import PartitionSegments
from isthmus_tier.core.records import Update, decode_record, encode_added, encode_update
from isthmus_tier.core.segments import Place, RemoteSegment

logger = logging.getLogger(__name__)

WAIT_SECONDS: Final = 120.0
"""How long a writer waits until its record was read back; the default of Kafka's remote.log.metadata.consume.wait.ms."""
_POLL_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 1.0


class TopicSettings(NamedTuple):
    """With which the topic is created; an existing one is not changed."""

    partitions: int = 50
    replication_factor: int = 3
    min_in_sync: int = 2
    retention_ms: int = -1


class WrongPartitionCount(Exception):
    """The topic has another number of partitions than the settings say, so records would be looked for in the wrong ones."""


class NotRecorded(Exception):
    """A record was not written, or not read back in time; whether it is in the log is unknown."""


class _Followed:
    """What is known of a partition: nothing for its users until its earlier records are read."""

    def __init__(self, joined_at: int) -> None:
        self.joined_at = joined_at
        """The offset in the metadata partition from which records are taken in as they come."""
        self.segments = PartitionSegments()
        self.later: list[RemoteSegment | Update] | None = []
        """Records that wait for the earlier ones; None once those were read."""

    def take(self, record: RemoteSegment | Update) -> None:
        """Take in a record that was written since."""
        if self.later is not None:
            self.later.append(record)
        else:
            self.segments.apply(record)

    def complete(self) -> None:
        """The earlier records were read."""
        for record in self.later or ():
            self.segments.apply(record)
        self.later = None


class MetadataLog:
    """The metadata of the partitions that are followed; `run` reads it."""

    def __init__(self, client: Client, settings: TopicSettings) -> None:
        self._client = client
        self._producer = Producer(client)
        self._settings = settings
        self._followed: dict[Place, _Followed] = {}
        self._positions: dict[int, int] = {}
        """Up to where each metadata partition was read; empty until the topic exists."""
        self._advanced = asyncio.Condition()
        self._new: set[Place] = set()
        self._has_new = asyncio.Event()

    def follow(self, places: Iterable[Place]) -> None:
        """Follow these partitions, too."""
        self._new.update(place for place in places if place not in self._followed)
        self._has_new.set()

    def forget(self, places: Iterable[Place]) -> None:
        """Follow these partitions no longer."""
        for place in places:
            self._new.discard(place)
            self._followed.pop(place, None)

    async def loaded(self, place: Place) -> PartitionSegments:
        """What is known of a followed partition, once its records are read."""
        async with self._advanced:
            await self._advanced.wait_for(lambda: self.segments_of(place) is not None)
        return self._followed[place].segments

    def segments_of(self, place: Place) -> PartitionSegments | None:
        """What is known of a partition; None until its records are read."""
        followed = self._followed.get(place)
        return followed.segments if followed is not None and followed.later is None else None

    async def write(self, record: RemoteSegment | Update) -> None:
        """Write a record, and wait until it has been read back; raises NotRecorded."""
        partition = metadata_partition(record.place, self._settings.partitions)
        value = encode_added(record) if isinstance(record, RemoteSegment) else encode_update(record)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                delivery = await self._producer.send(REMOTE_METADATA_TOPIC, value, partition=partition)
                appended = await delivery.place()
                async with self._advanced:
                    await self._advanced.wait_for(lambda: self._positions.get(partition, 0) > appended.offset)
        except (ClientError, TimeoutError) as error:
            raise NotRecorded(f"a record of {record.place.topic}-{record.place.partition}: {error}") from error

    async def run(self) -> None:
        """Create the topic, and read it until cancelled; raises WrongPartitionCount. After any other failure, reading continues."""
        while True:
            try:
                await self._create()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._read())
                    tasks.create_task(self._load_new())
            except* ClientError as failures:
                logger.warning("cannot read %s; retrying: %s", REMOTE_METADATA_TOPIC, failures.exceptions[0])
                if failures.subgroup(_has_lost_records) is not None:
                    self._begin_again()
            await asyncio.sleep(_RETRY_SECONDS)

    # -- inside --------------------------------------------------------------------------------------------------------------

    def _begin_again(self) -> None:
        """Forget what was read: records of it are no longer in the log."""
        self._positions = {}
        self._new.update(self._followed)
        self._followed.clear()

    async def _create(self) -> None:
        settings = self._settings
        configs = {
            "cleanup.policy": "delete",
            "retention.ms": str(settings.retention_ms),
            "remote.storage.enable": "false",
            "min.insync.replicas": str(settings.min_in_sync),
        }
        topic = topics.NewTopic(
            REMOTE_METADATA_TOPIC, settings.partitions, settings.replication_factor, configs=configs
        )
        refused = (await topics.create(self._client, [topic]))[REMOTE_METADATA_TOPIC]
        if refused is not None and refused.code is not ErrorCode.topic_already_exists:
            raise refused
        count = len((await topics.describe(self._client, [REMOTE_METADATA_TOPIC]))[REMOTE_METADATA_TOPIC].partitions)
        if count != settings.partitions:
            raise WrongPartitionCount(
                f"topic {REMOTE_METADATA_TOPIC} has {count} partitions, "
                f"and remote.log.metadata.topic.num.partitions is {settings.partitions}"
            )

    async def _read(self) -> None:
        """Take in what is written from now on, or since the last attempt."""
        async with Consumer(self._client) as consumer:
            starts = {n: self._positions.get(n, At.LATEST) for n in range(self._settings.partitions)}
            await consumer.assign(
                {TopicPartition(REMOTE_METADATA_TOPIC, number): start for number, start in starts.items()}
            )
            await self._advance(consumer)
            while True:
                for consumed in await consumer.poll(_POLL_SECONDS):
                    record = _decoded(consumed)
                    followed = None if record is None else self._followed.get(record.place)
                    if record is not None and followed is not None and consumed.record.offset >= followed.joined_at:
                        followed.take(record)
                await self._advance(consumer)

    async def _advance(self, consumer: Consumer) -> None:
        # Before anything else runs: a partition that is followed from now on must not miss what was just taken in.
        self._positions = {at.partition: consumer.position(at) for at in consumer.assignment}
        async with self._advanced:
            self._advanced.notify_all()

    async def _load_new(self) -> None:
        """Read the earlier records of partitions that are followed since."""
        async with self._advanced:
            await self._advanced.wait_for(lambda: bool(self._positions))
        while True:
            self._has_new.clear()
            places = {place for place, one in self._followed.items() if one.later is not None} | self._new
            for place in self._new:
                self._followed[place] = _Followed(self._positions[self._partition_of(place)])
            self._new.clear()
            by_partition: dict[int, set[Place]] = defaultdict(set)
            for place in places:
                by_partition[self._partition_of(place)].add(place)
            for partition, of_partition in by_partition.items():
                await self._load(partition, of_partition)
            await self._has_new.wait()

    async def _load(self, partition: int, places: Collection[Place]) -> None:
        waiting = {place: one for place in places if (one := self._followed.get(place)) is not None}
        end = max((one.joined_at for one in waiting.values()), default=0)
        at = TopicPartition(REMOTE_METADATA_TOPIC, partition)
        async with Consumer(self._client) as consumer:
            await consumer.assign({at: At.EARLIEST})
            for one in waiting.values():
                one.segments = PartitionSegments()
            while consumer.position(at) < end:
                for consumed in await consumer.poll(_POLL_SECONDS):
                    record = _decoded(consumed)
                    one_of = None if record is None else waiting.get(record.place)
                    if record is not None and one_of is not None and consumed.record.offset < one_of.joined_at:
                        one_of.segments.apply(record)
        for one in waiting.values():
            one.complete()
        async with self._advanced:
            self._advanced.notify_all()

    def _partition_of(self, place: Place) -> int:
        return metadata_partition(place, self._settings.partitions)


def _has_lost_records(error: BaseException) -> bool:
    is_out_of_range = isinstance(error, Refused) and error.code is ErrorCode.offset_out_of_range
    return is_out_of_range or isinstance(error, LogTruncated)


def _decoded(consumed: ConsumedRecord) -> RemoteSegment | Update | None:
    """The content of a record; None for one that says nothing about a segment, or cannot be read."""
    try:
        return decode_record(consumed.record.value or b"")
    except DecodeError as error:
        logger.error("record %d of %s is ignored: %s", consumed.record.offset, consumed.partition, error)
        return None
