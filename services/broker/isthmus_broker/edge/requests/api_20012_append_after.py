"""AppendAfter, an Isthmus API: append batches if the log still ends with the batch that the sender names."""

from collections.abc import Coroutine, Mapping, Sequence

from isthmus_model.internal_topics import INTERNAL_TOPICS
from isthmus_wire.errors import ErrorCode
from isthmus_wire.extensions.append_after import AppendAfterResponse, Following, decode_after_request
from isthmus_wire.extensions.topic_batches import RawTopic

from isthmus_broker.core.log.batch_opening import Opened
from isthmus_broker.core.log.producer_state import Refusal
from isthmus_broker.core.replica.acceptance import open_following
from isthmus_broker.edge.replication.internal_appends import append_all
from isthmus_broker.edge.replication.partition import Partition
from isthmus_broker.edge.requests.services import Services
from isthmus_broker.edge.transport.connection import Request


def handle(node: Services, request: Request) -> Coroutine[None, None, None] | None:
    """Append at once, and respond when the records are committed. Batches for compacted topics are opened first."""
    timeout_ms, topics = decode_after_request(request.frame, request.header.size)
    if any(_compacted(node, topic.name, part) for topic in topics for part in topic.partitions):
        return _open_and_append(node, request)
    _append(node, request, timeout_ms, topics, {})
    return None


async def _open_and_append(node: Services, request: Request) -> None:
    # Decoded again: the frame of a handler that takes longer is a copy; offsets are written into this one.
    timeout_ms, topics = decode_after_request(memoryview(bytearray(request.frame)), request.header.size)
    opened: dict[int, Opened] = {}  # by the identity of the part: a request may name a partition twice
    for topic in topics:
        for part in topic.partitions:
            partition = _compacted(node, topic.name, part)
            if partition is not None:
                opened[id(part)] = await node.replicas.opener.run(
                    open_following, part, partition.append_rules, topic.name, part.partition
                )
    _append(node, request, timeout_ms, topics, opened)


def _compacted(node: Services, topic: str, part: Following) -> Partition | None:
    partition = node.replicas.find(topic, part.partition)
    if isinstance(partition, ErrorCode) or partition.log is None or not partition.append_rules.keys_required:
        return None
    return partition


def _append(
    node: Services,
    request: Request,
    timeout_ms: int,
    topics: Sequence[RawTopic[Following]],
    opened: Mapping[int, Opened],
) -> None:
    now = node.clocks.now()

    def append_to(partition: Partition, part: Following) -> Refusal | None:
        if partition.topic in INTERNAL_TOPICS:
            return Refusal(ErrorCode.invalid_topic_exception)
        return partition.append_after(part, now, opened.get(id(part)))

    append_all(node.replicas, request, timeout_ms, topics, append_to, AppendAfterResponse)
