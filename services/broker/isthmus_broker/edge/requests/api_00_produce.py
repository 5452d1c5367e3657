"""Produce: append one batch to each partition.

Versions 0 to 2 are listed, as in Kafka, for old librdkafka, and refused when used. Version 13 names topics by id. With acks=0 there is no
response; an error closes the connection, which is the only way to inform the client.
"""

from collections.abc import Coroutine
from typing import Final, NamedTuple

from isthmus_model.clocks import Now
from isthmus_model.internal_topics import INTERNAL_TOPICS
from isthmus_wire.errors import ErrorCode
from isthmus_wire.fast_fields import Topic
from isthmus_wire.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    decode_produce_request,
    encode_produce_response,
)
from isthmus_wire.records import HEADER_SIZE, TRANSACTIONAL_BIT

from isthmus_broker.core.log.append_check import AppendRules
from isthmus_broker.core.log.batch_opening import Opened
from isthmus_broker.core.replica.acceptance import ALL_IN_SYNC, OpenFirst, open_produced
from isthmus_broker.core.replica.uncommitted import Uncommitted
from isthmus_broker.edge.replication.acks_all import wait_for_commit
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.transport.connection import ConnectionRefused, Request

LOWEST_SERVED: Final = 3
_ACKS: Final = (-1, 0, 1)
_NO_TRANSACTIONS: Final = ErrorCode.transactional_id_authorization_failed.value
_ATTRIBUTES_LOW_AT: Final = 22
Results = list[tuple[Topic, list[ProduceResult]]]
Topics = list[tuple[Topic, list[tuple[int, memoryview | bytes | None]]]]
_ADMIN_CLIENT: Final = "__admin_client"


def handle(node: Services, request: Request) -> Coroutine[None, None, None] | None:
    """Append, then respond for every partition in the request's order. Batches that must be opened first take longer."""
    header = request.header
    if header.api_version < LOWEST_SERVED:
        raise ConnectionRefused(f"Produce version {header.api_version}, below {LOWEST_SERVED}")
    body = decode_produce_request(header.api_version, request.frame, header.size)
    now = node.clocks.now()
    batches = _each_once(body.topics)
    appends = _Appends(node, request, body)
    if _is_transactional(batches):
        topics = [(topic, [ProduceResult(index, _NO_TRANSACTIONS) for index, _ in parts]) for topic, parts in batches]
    else:
        topics = [
            (topic, [appends.append(topic, index, records, now) for index, records in parts])
            for topic, parts in batches
        ]
    if appends.to_open:
        return _open_and_append(appends, topics)
    _finish(appends, topics)
    return None


async def _open_and_append(appends: "_Appends", topics: Results) -> None:
    """Open what must be opened, append it, and finish."""
    node = appends.node
    results = {topic: {result.partition: result for result in of_topic} for topic, of_topic in topics}
    for topic, index, records, rules, name in appends.to_open:
        opened = await node.replicas.opener.run(open_produced, records, rules, name, index)
        results[topic][index] = appends.append(topic, index, records, node.clocks.now(), opened)
    _finish(appends, [(topic, list(of_topic.values())) for topic, of_topic in results.items()])


def _finish(appends: "_Appends", topics: Results) -> None:
    node, request, body, uncommitted = appends.node, appends.request, appends.body, appends.uncommitted
    if uncommitted:
        wait_for_commit(request, body.timeout_ms, topics, uncommitted, lambda: _reply(node, request, topics))
        return
    if body.acks != 0:
        _reply(node, request, topics)
        return
    for topic, results in topics:
        for result in results:
            if result.error_code:
                error = ErrorCode(result.error_code).name
                raise ConnectionRefused(f"a batch with acks=0 for {topic!r}-{result.partition} failed with {error}")
    request.finish()


def _reply(node: Services, request: Request, topics: Results) -> None:
    """Respond. A client that chose the wrong broker receives the current leaders (KIP-951)."""
    version = request.header.api_version
    moved = {result.current_leader[0] for _, results in topics for result in results if result.current_leader}
    leaders = node.replicas.endpoints_of(sorted(moved), request.connection.listener_name) if moved else ()
    request.reply(encode_produce_response(version, ProduceResponse(topics, node_endpoints=leaders)))


def _each_once(topics: Topics) -> Topics:
    """Keep the last batch of a partition named twice, and drop topics without partitions, as Kafka does."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        return topics
    merged: dict[Topic, dict[int, memoryview | bytes | None]] = {}
    for topic, partitions in topics:
        for index, records in partitions:
            merged.setdefault(topic, {})[index] = records
    return [(topic, list(partitions.items())) for topic, partitions in merged.items()]


def _is_transactional(topics: Topics) -> bool:
    """Whether any batch belongs to a transaction. This broker does not serve transactions."""
    return any(
        records is not None and len(records) >= HEADER_SIZE and records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_BIT
        for _, partitions in topics
        for _, records in partitions
    )


class _ToOpen(NamedTuple):
    topic: Topic
    partition: int
    records: memoryview
    rules: AppendRules
    name: str


class _Appends:
    """The appends of one request."""

    __slots__ = ("body", "node", "request", "to_open", "uncommitted")

    def __init__(self, node: Services, request: Request, body: ProduceRequest) -> None:
        self.node = node
        self.request = request
        self.body = body
        self.uncommitted: dict[tuple[Topic, int], Uncommitted] = {}
        self.to_open: list[_ToOpen] = []
        """Batches that must be opened first; their results are preliminary."""

    def append(
        self, topic: Topic, index: int, records: memoryview | bytes | None, now: Now, opened: Opened | None = None
    ) -> ProduceResult:
        """Append to one partition."""
        node, acks, header = self.node, self.body.acks, self.request.header
        if acks not in _ACKS:
            return ProduceResult(index, ErrorCode.invalid_required_acks.value)
        partition = node.replicas.find(topic, index)
        if isinstance(partition, ErrorCode):
            moved = partition is ErrorCode.not_leader_or_follower
            leader = node.replicas.find_leader(topic, index) if moved else None
            return ProduceResult(index, partition.value, current_leader=leader)
        if partition.topic in INTERNAL_TOPICS and header.client_id != _ADMIN_CLIENT:
            return ProduceResult(index, ErrorCode.invalid_topic_exception.value)
        try:
            view = None if records is None else memoryview(records)
            result = partition.produce(view, header.api_version, acks, now, opened)
        except DiskFailure as failure:
            node.replicas.fail(partition, failure)
            return ProduceResult(index, ErrorCode.kafka_storage_error.value)
        except OpenFirst as first:
            assert records is not None
            # A copy: the receive buffer is valid only while the handler runs.
            self.to_open.append(_ToOpen(topic, index, memoryview(bytearray(records)), first.rules, partition.topic))
            return ProduceResult(index, ErrorCode.unknown_server_error.value)
        if acks == ALL_IN_SYNC and not result.error_code and partition.has_uncommitted:
            self.uncommitted[topic, index] = Uncommitted.now(partition)
        return result
