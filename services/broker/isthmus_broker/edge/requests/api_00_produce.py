"""Produce: append one batch to each partition.

Versions 0 to 2 are listed, as in Kafka, for old librdkafka, and refused when used. Version 13 names topics by id. With acks=0 there is no
response; an error closes the connection, which is the only way to inform the client.
"""

from collections.abc import Coroutine, Mapping
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

from isthmus_broker.core.log.append_check import AppendRules
from isthmus_broker.core.log.batch_opening import Opened
from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.core.log.verification import NOT_VERIFIED
from isthmus_broker.core.replica.acceptance import ALL_IN_SYNC, OpenFirst, open_produced
from isthmus_broker.core.replica.uncommitted import Uncommitted
from isthmus_broker.edge.replication.acks_all import wait_for_commit
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.requests.transactional_produce import (
    NO_NUMBERS,
    Place,
    Topics,
    begin_verification,
    transactional_batches,
    verify,
)
from isthmus_broker.edge.storage.files import DiskFailure
from isthmus_broker.edge.transport.connection import ConnectionRefused, Request

LOWEST_SERVED: Final = 3
_ACKS: Final = (-1, 0, 1)
Results = list[tuple[Topic, list[ProduceResult]]]
_ADMIN_CLIENT: Final = "__admin_client"


def handle(node: Services, request: Request) -> Coroutine[None, None, None] | None:
    """Append, then respond for every partition in the request's order. Batches that must be opened first take longer."""
    header = request.header
    if header.api_version < LOWEST_SERVED:
        raise ConnectionRefused(f"Produce version {header.api_version}, below {LOWEST_SERVED}")
    body = decode_produce_request(header.api_version, request.frame, header.size)
    now = node.clocks.now()
    batches = _each_once(body.topics)
    transactions = transactional_batches(batches)
    if transactions:
        needed = begin_verification(node, body.transactional_id, transactions, header.api_version)
        if needed.partitions:
            return _verify_and_append(node, request)
        return _append_all(_Appends(node, request, body, needed.refused, needed.numbers), batches, now)
    return _append_all(_Appends(node, request, body, {}), batches, now)


async def _verify_and_append(node: Services, request: Request) -> None:
    """Verify the transaction, append, and finish. The frame is a copy by now, so it is decoded again."""
    version = request.header.api_version
    body = decode_produce_request(version, request.frame, request.header.size)
    batches = _each_once(body.topics)
    verified = await verify(node, body.transactional_id, transactional_batches(batches), version)
    appends = _Appends(node, request, body, verified.refused, verified.numbers)
    work = _append_all(appends, batches, node.clocks.now())
    if work is not None:
        await work


def _append_all(appends: "_Appends", batches: Topics, now: Now) -> Coroutine[None, None, None] | None:
    topics = [
        (topic, [appends.append(topic, index, records, now) for index, records in parts]) for topic, parts in batches
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


class _ToOpen(NamedTuple):
    topic: Topic
    partition: int
    records: memoryview
    rules: AppendRules
    name: str


class _Appends:
    """The appends of one request."""

    __slots__ = ("_numbers", "_refused", "body", "node", "request", "to_open", "uncommitted")

    def __init__(
        self,
        node: Services,
        request: Request,
        body: ProduceRequest,
        refused: Mapping[Place, Refusal],
        numbers: Mapping[Place, int] = NO_NUMBERS,
    ) -> None:
        """`refused` are partitions whose transaction does not permit the append, `numbers` those of the verifications of others."""
        self._refused = refused
        self._numbers = numbers
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
        if self._refused and (topic, index) in self._refused:
            refusal = self._refused[topic, index]
            return ProduceResult(index, refusal.error.value, error_message=refusal.message)
        partition = node.replicas.find(topic, index)
        if isinstance(partition, ErrorCode):
            moved = partition is ErrorCode.not_leader_or_follower
            leader = node.replicas.find_leader(topic, index) if moved else None
            return ProduceResult(index, partition.value, current_leader=leader)
        if partition.topic in INTERNAL_TOPICS and header.client_id != _ADMIN_CLIENT:
            return ProduceResult(index, ErrorCode.invalid_topic_exception.value)
        try:
            view = None if records is None else memoryview(records)
            number = self._numbers.get((topic, index), NOT_VERIFIED) if self._numbers else NOT_VERIFIED
            result = partition.produce(view, header.api_version, acks, now, opened, number)
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
