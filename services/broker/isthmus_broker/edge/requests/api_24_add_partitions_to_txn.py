"""AddPartitionsToTxn: up to version 3 clients add partitions to their transaction, since 4 brokers check or add them for their clients."""

import asyncio
from typing import Any

from isthmus_model.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.markers import ProducerId
from isthmus_wire.messages import NO_THROTTLE
from isthmus_wire.requests import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnTransaction
from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResult

from isthmus_broker.core.transaction.records import TopicPartition
from isthmus_broker.core.transaction.requests import VERSION_2, AddPartitions, Verified
from isthmus_broker.edge.coordinators.verifier import BROKERS_SINCE
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.requests.transaction_requests import Errors, places_of, results_of
from isthmus_broker.edge.transport.connection import Request


async def handle(node: Services, request: Request) -> None:
    """Respond for every transaction in the request's order."""
    body: AddPartitionsToTxnRequest = request.decode()
    version = request.header.api_version
    if version < BROKERS_SINCE:
        topics = body.v3_and_below_topics
        transaction: AddPartitionsToTxnTransaction = entity(
            AddPartitionsToTxnTransaction,
            transactional_id=body.v3_and_below_transactional_id,
            producer_id=body.v3_and_below_producer_id,
            producer_epoch=body.v3_and_below_producer_epoch,
            topics=topics,
        )
        results = results_of(topics, await _add(node, transaction, version), version)
        request.respond(AddPartitionsToTxnResponse(throttle_time=NO_THROTTLE, results_by_topic_v3_and_below=results))
        return
    errors = await asyncio.gather(*(_add(node, transaction, version) for transaction in body.transactions))
    by_transaction: Any = tuple(
        entity(
            AddPartitionsToTxnResult,
            transactional_id=transaction.transactional_id,
            topic_results=results_of(transaction.topics, of_transaction, version),
        )
        for transaction, of_transaction in zip(body.transactions, errors, strict=True)
    )
    request.respond(AddPartitionsToTxnResponse(throttle_time=NO_THROTTLE, results_by_transaction=by_transaction))


def refuse(request: Request, error: ErrorCode) -> None:
    """Respond with an error for all partitions, or since version 4 for the whole request."""
    body: AddPartitionsToTxnRequest = request.decode()
    if request.header.api_version >= BROKERS_SINCE:
        request.respond(AddPartitionsToTxnResponse(throttle_time=NO_THROTTLE, error_code=error))
        return
    topics = body.v3_and_below_topics
    results = results_of(topics, dict.fromkeys(places_of(topics), error), request.header.api_version)
    request.respond(AddPartitionsToTxnResponse(throttle_time=NO_THROTTLE, results_by_topic_v3_and_below=results))


async def _add(node: Services, transaction: AddPartitionsToTxnTransaction, version: int) -> Errors:
    """The error of each partition."""
    places = places_of(transaction.topics)
    refused = {place: error for place in places if (error := _refusal(node, place, version)) is not None}
    if refused:
        others = dict.fromkeys(places - refused.keys(), ErrorCode.operation_not_attempted)
        return {**others, **refused}
    if not transaction.transactional_id:
        return dict.fromkeys(places, ErrorCode.invalid_request)
    call = AddPartitions(
        transactional_id=transaction.transactional_id,
        producer=ProducerId(transaction.producer_id, transaction.producer_epoch),
        partitions=places,
        version=VERSION_2 if version >= BROKERS_SINCE and not transaction.verify_only else 0,
        verify_only=transaction.verify_only,
    )
    verified: Verified = await node.transactions.call(call)
    return verified.errors


def _refusal(node: Services, place: TopicPartition, version: int) -> ErrorCode | None:
    """Why a partition cannot be added. A client adds offsets of a group by AddOffsetsToTxn."""
    is_internal = place.topic in INTERNAL_TOPICS
    if version < BROKERS_SINCE and is_internal:
        return ErrorCode.topic_authorization_failed
    topic = node.image.topics.named(place.topic)
    exists = topic is not None and place.partition in topic.partitions
    return None if exists or place.topic == OFFSETS_TOPIC else ErrorCode.unknown_topic_or_partition
