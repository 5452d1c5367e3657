"""Produce, versions 3 to 13: append one batch to each partition.

Versions 0 to 2 are listed, as Kafka lists them for the sake of old librdkafka, and refused when used. Version 13 names topics by id.
With acks=0 there is no response; an error then closes the connection, which is the only way to tell the client.
"""

from typing import Final

from isthmus_wire.apis import ApiKey
from isthmus_wire.errors import ErrorCode
from isthmus_wire.hot import Topic
from isthmus_wire.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    decode_produce_request,
    encode_produce_response,
)

from isthmus_broker.edge.api.registry import handles
from isthmus_broker.edge.clock import now_ms
from isthmus_broker.edge.disk.files import DiskFailure
from isthmus_broker.edge.net.connection import ConnectionRefused, Request
from isthmus_broker.edge.services import INTERNAL_TOPICS, Services

LOWEST_SERVED: Final = 3
_ACKS: Final = (-1, 0, 1)
_ADMIN_CLIENT: Final = "__admin_client"


@handles(ApiKey.PRODUCE)
def produce(node: Services, request: Request) -> None:
    """Append, then answer for every partition in the request's order."""
    header = request.header
    if header.api_version < LOWEST_SERVED:
        raise ConnectionRefused(f"Produce version {header.api_version}, below {LOWEST_SERVED}")
    asked = decode_produce_request(header.api_version, request.frame, header.size)
    now = now_ms()
    topics = [
        (topic, [_append(node, asked, topic, index, records, request, now) for index, records in partitions])
        for topic, partitions in asked.topics
    ]
    if asked.acks != 0:
        request.reply(encode_produce_response(header.api_version, ProduceResponse(topics)))
        return
    for topic, results in topics:
        for result in results:
            if result.error_code:
                error = ErrorCode(result.error_code).name
                raise ConnectionRefused(f"a batch with acks=0 for {topic!r}-{result.partition} failed with {error}")
    request.finish()


def _append(
    node: Services,
    asked: ProduceRequest,
    topic: Topic,
    index: int,
    records: memoryview | bytes | None,
    request: Request,
    now: int,
) -> ProduceResult:
    if asked.acks not in _ACKS:
        return ProduceResult(index, ErrorCode.invalid_required_acks.value)
    if asked.transactional_id is not None:
        return ProduceResult(
            index, ErrorCode.transactional_id_authorization_failed.value, error_message=NO_TRANSACTIONS
        )
    partition = node.replicas.find(topic, index)
    if isinstance(partition, ErrorCode):
        return ProduceResult(index, partition.value)
    if partition.topic in INTERNAL_TOPICS and request.header.client_id != _ADMIN_CLIENT:
        message = f"Cannot append to internal topic {partition.topic}"
        return ProduceResult(index, ErrorCode.invalid_topic_exception.value, error_message=message)
    try:
        view = None if records is None else memoryview(records)
        return partition.produce(view, request.header.api_version, asked.acks, now)
    except DiskFailure as failure:
        node.replicas.fail(partition, failure)
        return ProduceResult(index, ErrorCode.kafka_storage_error.value)


NO_TRANSACTIONS: Final = "This broker does not serve transactions; produce without a transactional.id"
