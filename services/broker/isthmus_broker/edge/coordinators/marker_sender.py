"""Sends the markers of decided transactions to the leaders of their partitions, and reports each partition that has its marker.

A marker is retried until its partition has it or no longer exists. While a partition has no leader its marker waits for one: Apache Kafka
4.3.1 would skip it, and leave the transaction open in that log (KAFKA-20734).
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from isthmus_model.endpoints import Endpoint
from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker
from kio.schema.write_txn_markers.v2.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.schema.write_txn_markers.v2.response import WriteTxnMarkersResponse

from isthmus_broker.core.metadata.image import ClusterImage
from isthmus_broker.core.transaction.records import TopicPartition
from isthmus_broker.core.transaction.requests import MarkersWritten, WriteMarkers
from isthmus_broker.edge.background import background
from isthmus_broker.edge.coordinators.broker_queues import BrokerQueues
from isthmus_broker.edge.coordinators.marker_writer import MarkerWriter, PlacedMarker

if TYPE_CHECKING:
    from isthmus_client.connection import Connection

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.05
_WRITTEN: Final = frozenset(
    {
        ErrorCode.none,
        # A higher epoch of the producer is in the log: its transaction before that was ended there.
        ErrorCode.invalid_producer_epoch,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_version,
    }
)
_EXPECTED: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
    }
)
"""Errors that a retry resolves; others are logged."""


class _Task(NamedTuple):
    """A marker for one partition, and the shard that has it sent."""

    shard: int
    load: int
    """Counts the shard's loads: what an earlier load began is not continued."""
    transactional_id: str
    marker: Marker
    place: TopicPartition


class MarkerSender:
    """The markers of all shards of this node."""

    def __init__(
        self,
        node_id: int,
        writer: MarkerWriter,
        address_of: Callable[[int], Endpoint | None],
        image: Callable[[], ClusterImage],
        timeout_ms: int,
        written: Callable[[int, MarkersWritten], None],
    ) -> None:
        """`written` reports partitions to a shard."""
        self._node_id = node_id
        self._writer = writer
        self._image = image
        self._timeout_ms = timeout_ms
        self._written = written
        self._loads: Counter[int] = Counter()
        self._without_leader: list[_Task] = []
        self._local: list[_Task] = []
        self._is_writing = False
        self._retries: set[asyncio.TimerHandle] = set()
        self._queues: BrokerQueues[_Task] = BrokerQueues(
            f"broker-{node_id}-transaction-markers", address_of, timeout_ms / 1000, self._exchange, self._retry_later
        )

    @property
    def without_leader(self) -> int:
        """The number of markers that wait for a leader."""
        return len(self._without_leader)

    def send(self, shard: int, order: WriteMarkers) -> None:
        """Send the markers of a decided transaction."""
        load = self._loads[shard]
        self._route(
            _Task(shard, load, order.transactional_id, order.marker, place) for place in sorted(order.partitions)
        )

    def forget(self, shard: int) -> None:
        """Send nothing more for the shard: the next coordinator does."""
        self._loads[shard] += 1

    def metadata_changed(self) -> None:
        """Find the leaders again of all markers that are not under way."""
        waiting, self._without_leader = self._without_leader, []
        self._route([*waiting, *self._queues.take_all()])

    def disconnect(self, broker: int) -> None:
        """Send again what is in flight to that broker."""
        self._queues.disconnect(broker)

    def stop(self) -> None:
        """Close every connection."""
        self._queues.stop()
        for retry in self._retries:
            retry.cancel()

    # -- inside --------------------------------------------------------------------------------------------------------------

    def _route(self, tasks: Iterable[_Task]) -> None:
        gone: list[_Task] = []
        image = self._image()
        for task in tasks:
            if task.load != self._loads[task.shard]:
                continue
            topic = image.topics.named(task.place.topic)
            partition = None if topic is None else topic.partitions.get(task.place.partition)
            if partition is None:
                gone.append(task)
            elif partition.leader == self._node_id:
                self._local.append(task)
            elif partition.leader in image.brokers:
                self._queues.add(partition.leader, task)
            else:
                self._without_leader.append(task)
        if self._local and not self._is_writing:
            self._is_writing = True
            background(self._write_here())
        self._report(gone)

    async def _write_here(self) -> None:
        while self._local:
            tasks, self._local = self._local, []
            errors = await self._writer.write([PlacedMarker(t.marker, t.place) for t in tasks], self._timeout_ms)
            self._handle(zip(tasks, errors, strict=True))
        self._is_writing = False

    async def _exchange(self, connection: "Connection", tasks: list[_Task]) -> None:
        request = WriteTxnMarkersRequest(markers=tuple(_markers(tasks)))
        response: WriteTxnMarkersResponse = await connection.request(ApiKey.WRITE_TXN_MARKERS, request)
        errors: dict[tuple[int, str, int], ErrorCode] = {
            (marker.producer_id, topic.name, result.partition_index): result.error_code
            for marker in response.markers
            for topic in marker.topics
            for result in topic.partitions
        }
        unknown = ErrorCode.unknown_server_error
        self._handle((t, errors.get((t.marker.producer.id, *t.place), unknown)) for t in tasks)

    def _handle(self, results: Iterable[tuple[_Task, ErrorCode]]) -> None:
        written: list[_Task] = []
        retried: list[_Task] = []
        for task, error in results:
            if error in _WRITTEN:
                written.append(task)
                continue
            retried.append(task)
            if error not in _EXPECTED:
                logger.warning(
                    "cannot write the marker of transaction %s to %s-%d: %s; retrying",
                    task.transactional_id, *task.place, error.name,
                )  # fmt: skip
        self._report(written)
        self._retry_later(retried)

    def _report(self, tasks: Iterable[_Task]) -> None:
        places: dict[tuple[int, str, Any], set[TopicPartition]] = defaultdict(set)
        for task in tasks:
            if task.load == self._loads[task.shard]:
                places[task.shard, task.transactional_id, task.marker.producer].add(task.place)
        for (shard, transactional_id, producer), written in places.items():
            report = MarkersWritten(transactional_id=transactional_id, producer=producer, partitions=frozenset(written))
            self._written(shard, report)

    def _retry_later(self, tasks: list[_Task]) -> None:
        if not tasks:
            return

        def retry() -> None:
            self._retries.discard(handle)
            self._route(tasks)

        handle = asyncio.get_running_loop().call_later(RETRY_SECONDS, retry)
        self._retries.add(handle)


def _markers(tasks: Iterable[_Task]) -> Iterable[WritableTxnMarker]:
    """One entry for each transaction."""
    topics: dict[Marker, dict[str, list[int]]] = {}
    for task in tasks:
        topics.setdefault(task.marker, {}).setdefault(task.place.topic, []).append(task.place.partition)
    for marker, partitions in topics.items():
        yield entity(
            WritableTxnMarker,
            producer_id=marker.producer.id,
            producer_epoch=marker.producer.epoch,
            transaction_result=marker.committed,
            topics=tuple(
                entity(WritableTxnMarkerTopic, name=name, partition_indexes=tuple(indexes))
                for name, indexes in partitions.items()
            ),
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
