"""Messages whose fields moved between versions: one class holds what any version carries."""

from isthmus_wire.apis import ApiKey
from isthmus_wire.entities import entity
from isthmus_wire.errors import ErrorCode
from isthmus_wire.messages import NO_THROTTLE, decode_request, decode_response, encode_request, encode_response
from isthmus_wire.requests import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kio.schema.add_partitions_to_txn.v5 import request as added
from kio.schema.add_partitions_to_txn.v5 import response as results

API = ApiKey.ADD_PARTITIONS_TO_TXN
TOPICS = (entity(added.AddPartitionsToTxnTopic, name="t", partitions=(0, 2)),)
OF_CLIENT = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="id",
    v3_and_below_producer_id=7,
    v3_and_below_producer_epoch=3,
    v3_and_below_topics=TOPICS,
)
OF_BROKER = AddPartitionsToTxnRequest(
    transactions=(
        entity(
            added.AddPartitionsToTxnTransaction,
            transactional_id="id",
            producer_id=7,
            producer_epoch=3,
            verify_only=True,
            topics=TOPICS,
        ),
    )
)
RESULTS = (
    entity(
        results.AddPartitionsToTxnTopicResult,
        name="t",
        results_by_partition=(
            entity(
                results.AddPartitionsToTxnPartitionResult,
                partition_index=0,
                partition_error_code=ErrorCode.transaction_abortable,
            ),
        ),
    ),
)


def test_partitions_are_added_to_one_transaction_by_clients_and_to_many_by_brokers() -> None:
    for version, request in ((0, OF_CLIENT), (3, OF_CLIENT), (4, OF_BROKER), (5, OF_BROKER)):
        assert decode_request(API, version, encode_request(API, version, request)) == request


def test_results_of_added_partitions_are_read_in_every_version() -> None:
    old = AddPartitionsToTxnResponse(throttle_time=NO_THROTTLE, results_by_topic_v3_and_below=RESULTS)
    new = AddPartitionsToTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.cluster_authorization_failed,
        results_by_transaction=(
            entity(results.AddPartitionsToTxnResult, transactional_id="id", topic_results=RESULTS),
        ),
    )
    for version, response in ((0, old), (3, old), (4, new), (5, new)):
        assert decode_response(API, version, encode_response(API, version, response)) == response
