"""WriteTxnMarkers: a transaction coordinator, or an administrator, ends transactions in partitions of this node."""

from collections.abc import Iterable

from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import Marker, ProducerId
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from isthmus_broker.core.transaction.records import TopicPartition
from isthmus_broker.edge.coordinators.marker_writer import PlacedMarker
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


async def handle(node: Services, request: Request) -> None:
    """Respond when every marker is committed or has failed."""
    body: WriteTxnMarkersRequest = request.decode()
    placed = [one for marker in body.markers for one in _placed(marker)]
    errors = iter(await node.markers.write(placed, node.config.settings.request_timeout_ms))
    markers = tuple(_result(marker, errors) for marker in body.markers)
    request.respond(WriteTxnMarkersResponse(markers=markers))


def _placed(marker: WritableTxnMarker) -> Iterable[PlacedMarker]:
    written = Marker(
        ProducerId(marker.producer_id, marker.producer_epoch),
        marker.transaction_result,
        marker.coordinator_epoch,
        marker.transaction_version,
    )
    for topic in marker.topics:
        for index in topic.partition_indexes:
            yield PlacedMarker(written, TopicPartition(topic.name, index))


def _result(marker: WritableTxnMarker, errors: Iterable[ErrorCode]) -> WritableTxnMarkerResult:
    """Take the errors of this marker's partitions, in the request's order."""
    taken = iter(errors)
    return entity(
        WritableTxnMarkerResult,
        producer_id=marker.producer_id,
        topics=tuple(
            entity(
                WritableTxnMarkerTopicResult,
                name=topic.name,
                partitions=tuple(
                    entity(WritableTxnMarkerPartitionResult, partition_index=index, error_code=next(taken))
                    for index in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ),
    )
